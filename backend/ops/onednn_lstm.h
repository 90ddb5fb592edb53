// An LSTM over whole sequences as the CPU computes it: a call of oneDNN for each layer and direction, with a derivative
// that is one, too. Written in other ops it is many small products one after the other, which take longer.
#pragma once
#include <optional>
#include <tuple>
#include <ATen/core/Tensor.h>

namespace lazuli::backend {

// at::lstm's arguments and results; nothing where the CPU computes it otherwise.
std::optional<std::tuple<at::Tensor, at::Tensor, at::Tensor>> onednn_lstm(const at::Tensor& input, at::TensorList hx,
                                                                          at::TensorList parameters, bool has_biases,
                                                                          int64_t layers, double dropout, bool train,
                                                                          bool bidirectional, bool batch_first);

}  // namespace lazuli::backend
