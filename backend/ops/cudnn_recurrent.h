// A recurrent network over whole sequences as one call of cuDNN, with a derivative that is one, too. Written in other
// ops it is a product and a kernel for each step of time.
#pragma once
#include <optional>
#include <ATen/core/Tensor.h>

namespace lazuli::backend {

// The kinds of cells, by cuDNN's numbers.
enum class RecurrentCell : int64_t { Relu, Tanh, Lstm, Gru };

struct RecurrentNetwork {
  RecurrentCell cell;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;
};

// The outputs of all steps, and the states after the last one: `hy` and, of an LSTM, `cy`.
struct RecurrentResults {
  at::Tensor y, hy, cy;
};

// Whether so many steps are worth it, and a call is possible: a GPU is behind the device, and nothing forbids it.
bool may_call_cudnn(int64_t steps, bool packed);

// For who may. `input`: [steps, batch, features] or, where `batch_sizes` says how many sequences go on at each step,
// [sum of batch_sizes, features]. `hx`: one state, or an LSTM's two, [layers * directions, batch, size]. `parameters`:
// in torch's order. Nothing where cuDNN does not take it, and where something is wrong that torch's own operators
// report. Dropout is drawn from the device's generator.
std::optional<RecurrentResults> cudnn_recurrent(const RecurrentNetwork& network, const at::Tensor& input,
                                                at::IntArrayRef batch_sizes, at::TensorList hx,
                                                at::TensorList parameters);

}  // namespace lazuli::backend
