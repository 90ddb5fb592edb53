// Recurrent networks in reference mode, as torch has them on the CPU: the input's part of all gates is one product for
// the whole sequence, a step writes in place what it no longer needs, and an LSTM is oneDNN's where that takes it. On a
// GPU, and for its errors, torch's composite decides.
#include "backend/reference/reference_recurrent.h"

#include <ATen/ATen.h>
#include <ATen/native/RNN.h>
#include <ATen/ops/gru_cell_native.h>
#include <ATen/ops/gru_native.h>
#include <ATen/ops/lstm_cell_native.h>
#include <ATen/ops/lstm_native.h>
#include <ATen/ops/rnn_relu_native.h>
#include <ATen/ops/rnn_tanh_native.h>
#include "backend/ops/onednn_lstm.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using at::TensorList;
using Tensors = std::vector<Tensor>;

struct Weights {
  Tensor input, hidden, input_bias, hidden_bias, projection;  // the last three may be absent
  Tensor of_input(const Tensor& x) const { return at::linear(x, input, input_bias); }
  Tensor of_hidden(const Tensor& h) const { return at::linear(h, hidden, hidden_bias); }
};

using State = Tensors;  // the hidden state, which is also the output; and an LSTM's cell state
using Cell = State (*)(const Tensor& gates, const State& state, const Weights& w);

template <Tensor (*activation)(const Tensor&)>
State simple(const Tensor& gates, const State& state, const Weights& w) {
  return {activation(w.of_hidden(state[0]).add_(gates))};
}

State lstm_step(const Tensor& gates, const State& state, const Weights& w) {
  const Tensors all = w.of_hidden(state[0]).add_(gates).unsafe_chunk(4, 1);
  const Tensor in = at::sigmoid_(const_cast<Tensor&>(all[0]));
  const Tensor forget = at::sigmoid_(const_cast<Tensor&>(all[1]));
  const Tensor fresh = at::tanh_(const_cast<Tensor&>(all[2]));
  const Tensor out = at::sigmoid_(const_cast<Tensor&>(all[3]));
  const Tensor kept = forget * state[1];
  const Tensor cell = kept.add_(in * fresh);
  const Tensor hidden = out * cell.tanh();
  return {w.projection.defined() ? at::matmul(hidden, w.projection.t()) : hidden, cell};
}

State gru_step(const Tensor& gates, const State& state, const Weights& w) {
  const Tensors in = gates.unsafe_chunk(3, 1), hidden = w.of_hidden(state[0]).unsafe_chunk(3, 1);
  const Tensor reset = hidden[0].add_(in[0]).sigmoid_();
  const Tensor update = hidden[1].add_(in[1]).sigmoid_();
  const Tensor fresh = in[2].add(hidden[2].mul_(reset)).tanh_();
  return {(state[0] - fresh).mul_(update).add_(fresh)};
}

State each(const State& state, const auto& call) {
  State out;
  for (const Tensor& t : state) out.push_back(call(t));
  return out;
}
State rows(const State& state, int64_t from, int64_t to) {
  return each(state, [&](const Tensor& t) { return t.narrow(0, from, to - from); });
}
State joined(const std::vector<State>& states) {
  State out;
  for (size_t part = 0; part < states[0].size(); ++part) {
    Tensors all;
    for (const State& s : states) all.push_back(s[part]);
    out.push_back(at::cat(all, 0));
  }
  return out;
}

struct Layer {
  Tensor outputs;
  State last;
};

// A sequence of equal batches.
Layer over_steps(Cell cell, const Tensor& input, State state, const Weights& w, bool backwards) {
  Tensors steps = w.of_input(input).unbind(0), outputs;
  if (backwards) std::ranges::reverse(steps);
  for (const Tensor& gates : steps) outputs.push_back((state = cell(gates, state, w))[0]);
  TORCH_CHECK(!outputs.empty(), "Expected sequence length to be larger than 0 in RNN");
  if (backwards) std::ranges::reverse(outputs);
  return {at::stack(outputs, 0), state};
}

// Sequences of falling lengths, packed: the batch gets smaller as they end, and going backwards larger as they begin.
Layer over_packed(Cell cell, const Tensor& input, const Tensor& batch_sizes, const State& initial, const Weights& w,
                  bool backwards) {
  const at::ArrayRef<int64_t> batches(batch_sizes.const_data_ptr<int64_t>(), batch_sizes.numel());
  const Tensor gates = w.of_input(input);
  Tensors outputs;
  int64_t offset = 0, before = batches[0];
  if (!backwards) {
    std::vector<State> ended;
    State state = initial;
    for (int64_t batch : batches) {
      const Tensor step = gates.narrow(0, offset, batch);
      if (batch < before) {
        ended.push_back(rows(state, batch, before));
        state = rows(state, 0, batch);
      }
      offset += batch, before = batch;
      outputs.push_back((state = cell(step, state, w))[0]);
    }
    ended.push_back(state);
    std::ranges::reverse(ended);
    const Tensor all = at::cat(outputs, 0);
    return {all, joined(ended)};
  }
  offset = input.size(0), before = batches.back();
  State state = rows(initial, 0, before);
  for (size_t i = batches.size(); i-- > 0;) {
    if (batches[i] > before) state = joined({state, rows(initial, before, batches[i])});
    offset -= batches[i], before = batches[i];
    outputs.push_back((state = cell(gates.narrow(0, offset, before), state, w))[0]);
  }
  std::ranges::reverse(outputs);
  return {at::cat(outputs, 0), state};
}

struct Network {
  Cell cell;
  bool has_biases;
  int64_t layers;
  double dropout;
  bool train, bidirectional;

  size_t directions() const { return bidirectional ? 2 : 1; }

  std::vector<Weights> weights(TensorList all, bool has_projections) const {
    const size_t each = 2 + (has_biases ? 2 : 0) + (has_projections ? 1 : 0);
    TORCH_CHECK(all.size() == each * static_cast<size_t>(layers) * directions(),
                "got an incorrect number of RNN parameters");
    std::vector<Weights> out;
    for (size_t i = 0; i < all.size(); i += each)
      out.push_back({all[i], all[i + 1], has_biases ? all[i + 2] : Tensor(), has_biases ? all[i + 3] : Tensor(),
                     has_projections ? all[i + each - 1] : Tensor()});
    return out;
  }

  // `run(input, state, weights, backwards)` is a layer in one direction. The states' parts come back stacked.
  std::pair<Tensor, State> operator()(Tensor input, TensorList initial, TensorList parameters, const auto& run) const {
    const bool has_projections = initial.size() == 2 && initial[0].size(2) != initial[1].size(2);
    const std::vector<Weights> all = weights(parameters, has_projections);
    std::vector<Tensors> parts;  // of the state, by layer and direction
    for (const Tensor& t : initial) parts.push_back(t.unbind(0));
    for (const Tensors& p : parts)
      TORCH_CHECK(p.size() == all.size(),
                  "Expected as many hidden states as layers and directions in a recurrent network");
    std::vector<Tensors> last(initial.size());
    for (int64_t l = 0; l < layers; ++l) {
      Tensors outputs;
      for (size_t d = 0; d < directions(); ++d) {
        const size_t i = static_cast<size_t>(l) * directions() + d;
        State state;
        for (const Tensors& p : parts) state.push_back(p[i]);
        Layer layer = run(input, state, all[i], d == 1);
        outputs.push_back(layer.outputs);
        for (size_t part = 0; part < last.size(); ++part) last[part].push_back(layer.last[part]);
      }
      input = bidirectional ? at::cat(outputs, outputs[0].dim() - 1) : outputs[0];
      if (dropout != 0 && train && l < layers - 1) input = at::dropout(input, dropout, true);
    }
    State stacked;
    for (const Tensors& t : last) stacked.push_back(at::stack(t, 0));
    return {input, stacked};
  }

  std::pair<Tensor, State> of_sequence(const Tensor& input, TensorList initial, TensorList parameters) const {
    return (*this)(input, initial, parameters,
                   [&](const Tensor& x, const State& state, const Weights& w, bool backwards) {
                     return over_steps(cell, x, state, w, backwards);
                   });
  }
  std::pair<Tensor, State> of_packed(const Tensor& data, const Tensor& batch_sizes, TensorList initial,
                                     TensorList parameters) const {
    return (*this)(data, initial, parameters,
                   [&](const Tensor& x, const State& state, const Weights& w, bool backwards) {
                     return over_packed(cell, x, batch_sizes, state, w, backwards);
                   });
  }
};

using Two = std::tuple<Tensor, Tensor>;
using Three = std::tuple<Tensor, Tensor, Tensor>;

template <Cell cell, auto composite>
Two sequence(const Tensor& input, const Tensor& hx, TensorList parameters, bool has_biases, int64_t layers,
             double dropout, bool train, bool bidirectional, bool batch_first) {
  if (!lazy::backing().has_host_kernels)
    return composite(input, hx, parameters, has_biases, layers, dropout, train, bidirectional, batch_first);
  at::native::check_attributes(input, parameters, hx);
  auto [y, last] = Network{cell, has_biases, layers, dropout, train, bidirectional}.of_sequence(
      batch_first ? input.transpose(0, 1) : input, hx, parameters);
  if (batch_first) y.transpose_(0, 1);
  return {y, last[0]};
}

template <Cell cell, auto composite>
Two packed(const Tensor& data, const Tensor& batch_sizes, const Tensor& hx, TensorList parameters, bool has_biases,
           int64_t layers, double dropout, bool train, bool bidirectional) {
  if (!lazy::backing().has_host_kernels)
    return composite(data, batch_sizes, hx, parameters, has_biases, layers, dropout, train, bidirectional);
  auto [y, last] =
      Network{cell, has_biases, layers, dropout, train, bidirectional}.of_packed(data, batch_sizes, hx, parameters);
  return {y, last[0]};
}

Three lstm(const Tensor& input, TensorList hx, TensorList parameters, bool has_biases, int64_t layers, double dropout,
           bool train, bool bidirectional, bool batch_first) {
  const bool fits = hx.size() == 2 && hx[0].dim() == 3 && hx[1].dim() == 3;
  if (!lazy::backing().has_host_kernels || !fits)
    return at::native::lstm(input, hx, parameters, has_biases, layers, dropout, train, bidirectional, batch_first);
  if (const auto results =
          onednn_lstm(input, hx, parameters, has_biases, layers, dropout, train, bidirectional, batch_first))
    return *results;
  at::native::check_attributes(input, parameters, hx);
  auto [y, last] = Network{lstm_step, has_biases, layers, dropout, train, bidirectional}.of_sequence(
      batch_first ? input.transpose(0, 1) : input, hx, parameters);
  return {batch_first ? y.transpose(0, 1) : y, last[0], last[1]};
}

Three lstm_of_packed(const Tensor& data, const Tensor& batch_sizes, TensorList hx, TensorList parameters,
                     bool has_biases, int64_t layers, double dropout, bool train, bool bidirectional) {
  const bool fits = hx.size() == 2 && hx[0].dim() == 3 && hx[1].dim() == 3;
  if (!lazy::backing().has_host_kernels || !fits)
    return at::native::lstm(data, batch_sizes, hx, parameters, has_biases, layers, dropout, train, bidirectional);
  auto [y, last] = Network{lstm_step, has_biases, layers, dropout, train, bidirectional}.of_packed(data, batch_sizes,
                                                                                                   hx, parameters);
  return {y, last[0], last[1]};
}

Weights cell_weights(const Tensor& w, const Tensor& h, const std::optional<Tensor>& b, const std::optional<Tensor>& c) {
  return {w, h, b.value_or(Tensor()), c.value_or(Tensor()), Tensor()};
}
bool cell_fits(const Tensor& x, const Tensor& h, const Tensor& w_ih, const Tensor& w_hh, int64_t gates) {
  return x.dim() == 2 && h.dim() == 2 && x.size(1) == w_ih.size(1) && h.size(0) == x.size(0) &&
         h.size(1) == w_hh.size(1) && w_ih.size(0) == gates * w_hh.size(1) && w_hh.size(0) == gates * w_hh.size(1);
}

// A cell alone takes the hidden state's product first.
Two lstm_cell(const Tensor& x, TensorList hx, const Tensor& w_ih, const Tensor& w_hh, const std::optional<Tensor>& b_ih,
              const std::optional<Tensor>& b_hh) {
  if (!lazy::backing().has_host_kernels || hx.size() != 2 || !cell_fits(x, hx[0], w_ih, w_hh, 4) ||
      !cell_fits(x, hx[1], w_ih, w_hh, 4))
    return at::native::lstm_cell(x, hx, w_ih, w_hh, b_ih, b_hh);
  const Weights w = cell_weights(w_ih, w_hh, b_ih, b_hh);
  const State state = lstm_step(w.of_input(x), {hx[0], hx[1]}, w);
  return {state[0], state[1]};
}
Tensor gru_cell(const Tensor& x, const Tensor& hx, const Tensor& w_ih, const Tensor& w_hh,
                const std::optional<Tensor>& b_ih, const std::optional<Tensor>& b_hh) {
  if (!lazy::backing().has_host_kernels || !cell_fits(x, hx, w_ih, w_hh, 3))
    return at::native::gru_cell(x, hx, w_ih, w_hh, b_ih, b_hh);
  const Weights w = cell_weights(w_ih, w_hh, b_ih, b_hh);
  return gru_step(w.of_input(x), {hx}, w)[0];
}

using Sequence = Two (*)(const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool, bool);
using Packed = Two (*)(const Tensor&, const Tensor&, const Tensor&, TensorList, bool, int64_t, double, bool, bool);

}  // namespace

void register_reference_recurrent(torch::Library& m) {
  namespace n = at::native;
  m.impl("rnn_tanh.input", sequence<simple<at::tanh>, static_cast<Sequence>(n::rnn_tanh)>);
  m.impl("rnn_tanh.data", packed<simple<at::tanh>, static_cast<Packed>(n::rnn_tanh)>);
  m.impl("rnn_relu.input", sequence<simple<at::relu>, static_cast<Sequence>(n::rnn_relu)>);
  m.impl("rnn_relu.data", packed<simple<at::relu>, static_cast<Packed>(n::rnn_relu)>);
  m.impl("gru.input", sequence<gru_step, static_cast<Sequence>(n::gru)>);
  m.impl("gru.data", packed<gru_step, static_cast<Packed>(n::gru)>);
  m.impl("lstm.input", lstm);
  m.impl("lstm.data", lstm_of_packed);
  m.impl("lstm_cell", lstm_cell);
  m.impl("gru_cell", gru_cell);
}

}  // namespace lazuli::backend
