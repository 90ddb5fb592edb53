// Layers of recurrent networks, step after step, in float32: Hochreiter and Schmidhuber, "Long Short-Term Memory",
// 1997; Cho et al., "Learning Phrase Representations using RNN Encoder-Decoder", 2014, as torch computes it. What a
// step's input adds to the gates is known before: one product for all steps.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Of T steps, a batch of B, and H hidden units.
struct RecurrentLayer {
  enum Cell : uint8_t {
    Lstm,  // gates: input, forget, cell, output. `other`: the first cell state [B,H]; the second result: the last one
    Gru,   // gates: reset, update, new. `other`: [3H], what is added to the products. No second result
  } cell;
  bool reverse;  // from the last step to the first
  Layout gates;  // [T,B,gates * H], neighbours in the last dimension
  Layout w;      // [gates * H,H], of any strides: what meets the hidden state before
};

// Operands: gates, w, the first hidden state [B,H], other; h and other dense. Results: hidden states [T,B,H], dense,
// and the last cell state. The bits do not depend on the number of threads.
std::unique_ptr<LibraryCall> make_recurrent(const RecurrentLayer& layer);
// The same with w packed.
PackedCall make_packed_recurrent(const RecurrentLayer& layer);

}  // namespace lazuli::lowering
