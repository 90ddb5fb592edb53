// Recurrent networks over whole sequences: a library's where one takes them, and else torch's composites.
#include <optional>
#include <tuple>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include "backend/ops/cudnn_recurrent.h"
#include "backend/ops/onednn_lstm.h"
#include "backend/ops/recurrent_layers.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using at::TensorList;
using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

std::optional<RecurrentResults> of_sequence(const RecurrentNetwork& network, const Tensor& input, TensorList hx,
                                            TensorList parameters, bool batch_first) {
  if (auto results = recurrent_layers(network, input, hx, parameters, batch_first)) return results;
  const int64_t steps = input.dim() == 3 ? input.sym_size(batch_first ? 1 : 0).maybe_as_int().value_or(0) : 0;
  if (!may_call_cudnn(steps, /*packed=*/false)) return {};
  auto results = cudnn_recurrent(network, batch_first ? input.transpose(0, 1) : input, {}, hx, parameters);
  if (results && batch_first) results->y = results->y.transpose(0, 1);
  return results;
}

std::optional<RecurrentResults> of_packed(const RecurrentNetwork& network, const Tensor& data,
                                          const Tensor& batch_sizes, TensorList hx, TensorList parameters) {
  const bool is_list = batch_sizes.is_cpu() && batch_sizes.scalar_type() == at::kLong && batch_sizes.dim() == 1;
  const int64_t steps = is_list && data.dim() == 2 ? batch_sizes.sym_numel().maybe_as_int().value_or(0) : 0;
  if (!may_call_cudnn(steps, /*packed=*/true)) return {};
  const Tensor sizes = batch_sizes.contiguous();
  return cudnn_recurrent(network, data, {sizes.const_data_ptr<int64_t>(), static_cast<size_t>(steps)}, hx, parameters);
}

Three lstm(const Tensor& input, TensorList hx, TensorList parameters, bool has_biases, int64_t layers, double dropout,
           bool train, bool bidirectional, bool batch_first) {
  if (auto r = of_sequence({RecurrentCell::Lstm, has_biases, layers, dropout, train, bidirectional}, input, hx,
                           parameters, batch_first))
    return {r->y, r->hy, r->cy};
  if (auto r = onednn_lstm(input, hx, parameters, has_biases, layers, dropout, train, bidirectional, batch_first))
    return *r;
  return at::native::lstm(input, hx, parameters, has_biases, layers, dropout, train, bidirectional, batch_first);
}

Three lstm_of_packed(const Tensor& data, const Tensor& batch_sizes, TensorList hx, TensorList parameters,
                     bool has_biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  if (auto r = of_packed({RecurrentCell::Lstm, has_biases, layers, dropout, train, bidirectional}, data, batch_sizes,
                         hx, parameters))
    return {r->y, r->hy, r->cy};
  return at::native::lstm(data, batch_sizes, hx, parameters, has_biases, layers, dropout, train, bidirectional);
}

using Sequence = Two (*)(const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);
using Packed = Two (*)(const Tensor&, const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool);

template <RecurrentCell cell, Sequence composite>
Two sequence(const Tensor& input, const Tensor& hx, TensorList parameters, bool has_biases, int64_t layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
  if (auto r =
          of_sequence({cell, has_biases, layers, dropout, train, bidirectional}, input, hx, parameters, batch_first))
    return {r->y, r->hy};
  return composite(input, hx, parameters, has_biases, layers, dropout, train, bidirectional, batch_first);
}

template <RecurrentCell cell, Packed composite>
Two packed(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList parameters, bool has_biases,
           int64_t layers, double dropout, bool train, bool bidirectional) {
  if (auto r = of_packed({cell, has_biases, layers, dropout, train, bidirectional}, data, batch_sizes, hx, parameters))
    return {r->y, r->hy};
  return composite(data, batch_sizes, hx, parameters, has_biases, layers, dropout, train, bidirectional);
}

}  // namespace

void register_recurrent_networks(torch::Library& m) {
  namespace n = at::native;
  using enum RecurrentCell;
  m.impl("lstm.input", lstm);
  m.impl("lstm.data", lstm_of_packed);
  m.impl("gru.input", sequence<Gru, static_cast<Sequence>(n::gru)>);
  m.impl("gru.data", packed<Gru, static_cast<Packed>(n::gru)>);
  m.impl("rnn_tanh.input", sequence<Tanh, static_cast<Sequence>(n::rnn_tanh)>);
  m.impl("rnn_tanh.data", packed<Tanh, static_cast<Packed>(n::rnn_tanh)>);
  m.impl("rnn_relu.input", sequence<Relu, static_cast<Sequence>(n::rnn_relu)>);
  m.impl("rnn_relu.data", packed<Relu, static_cast<Packed>(n::rnn_relu)>);
}

}  // namespace lazuli::backend
