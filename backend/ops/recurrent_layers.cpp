#include "backend/ops/recurrent_layers.h"
#include <algorithm>
#include <vector>
#include <ATen/autocast_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include "backend/record/operands.h"
#include "backend/torch_internals/dispatch_keys.h"
#include "lazy/memory/backing.h"
#include "lazy/record/recording.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using at::TensorList;

// The weights of one direction of a layer.
struct Weights {
  Tensor input, hidden, input_bias, hidden_bias;
};

class Layers {
 public:
  Layers(const RecurrentNetwork& network, TensorList hx, TensorList parameters)
      : network_(network), hx_(hx), parameters_(parameters) {}

  bool fit(const Tensor& input, bool batch_first) const {
    if (!is_simple(input) || input.dim() != 3 || input.numel() == 0 || hx_.size() != (is_lstm() ? 2u : 1u) ||
        std::ssize(parameters_) != network_.layers * directions() * (network_.has_biases ? 4 : 2))
      return false;
    if (!std::ranges::all_of(hx_, is_simple) || !std::ranges::all_of(parameters_, is_simple)) return false;
    const int64_t units = hx_[0].dim() == 3 ? hx_[0].size(2) : 0;
    const at::DimVector states{network_.layers * directions(), input.size(batch_first ? 0 : 1), units};
    if (units == 0 || !std::ranges::all_of(hx_, [&](const Tensor& h) { return h.sizes() == states; })) return false;
    int64_t width = input.size(2);
    for (int64_t l = 0; l < network_.layers; ++l, width = directions() * units)
      for (int64_t d = 0; d < directions(); ++d)
        if (!fit(weights(l, d), width, units)) return false;
    return true;
  }

  RecurrentResults run(const Tensor& input, bool batch_first) const {
    Tensor x = input;
    std::vector<Tensor> hidden, cells;
    for (int64_t l = 0; l < network_.layers; ++l) {
      std::vector<Tensor> outputs;
      for (int64_t d = 0; d < directions(); ++d) {
        const int64_t at = l * directions() + d;
        Tensor gates = product(x, weights(l, d));
        if (l == 0 && batch_first) gates = gates.transpose(0, 1);
        const auto [y, cell] = row(gates, weights(l, d), at, /*reverse=*/d == 1);
        outputs.push_back(y);
        hidden.push_back(y.select(0, d == 1 ? 0 : -1));
        if (is_lstm()) cells.push_back(cell);
      }
      x = directions() == 1 ? outputs[0] : at::cat(outputs, 2);
    }
    // As torch's own: of an LSTM a view.
    if (batch_first) x = is_lstm() ? x.transpose(0, 1) : x.transpose_(0, 1);
    return {x, at::stack(hidden), is_lstm() ? at::stack(cells) : Tensor()};
  }

 private:
  bool is_lstm() const { return network_.cell == RecurrentCell::Lstm; }
  int64_t directions() const { return network_.bidirectional ? 2 : 1; }
  int64_t gates() const { return is_lstm() ? 4 : 3; }

  Weights weights(int64_t layer, int64_t direction) const {
    const int64_t each = network_.has_biases ? 4 : 2;
    const auto p = parameters_.slice((layer * directions() + direction) * each, each);
    return {p[0], p[1], each == 4 ? p[2] : Tensor(), each == 4 ? p[3] : Tensor()};
  }
  bool fit(const Weights& w, int64_t width, int64_t units) const {
    const int64_t rows = gates() * units;
    const auto is_bias = [&](const Tensor& b) { return !b.defined() || b.sizes() == at::DimVector{rows}; };
    return w.input.sizes() == at::DimVector{rows, width} && w.hidden.sizes() == at::DimVector{rows, units} &&
           is_bias(w.input_bias) && is_bias(w.hidden_bias);
  }
  // Nobody stands around it: no tracer, no subclass, no negation that is still to be done.
  static bool is_simple(const Tensor& t) {
    return t.defined() && is_plain(*t.unsafeGetTensorImpl()) && is_ours(t) && t.scalar_type() == at::kFloat &&
           !t.unsafeGetTensorImpl()->has_symbolic_sizes_strides() &&
           !(at::GradMode::is_enabled() && t.requires_grad()) && !t._fw_grad(/*level=*/0).defined();
  }

  // What the input adds to the gates of all steps.
  Tensor product(const Tensor& x, const Weights& w) const {
    const Tensor gates = at::linear(x, w.input, w.input_bias);
    return is_lstm() && w.hidden_bias.defined() ? gates.add(w.hidden_bias) : gates;
  }

  std::pair<Tensor, Tensor> row(const Tensor& gates, const Weights& w, int64_t at, bool reverse) const {
    Tensor other = is_lstm() ? hx_[1].select(0, at) : w.hidden_bias;
    if (!other.defined()) other = at::zeros({gates.size(2)}, gates.options());
    const Tensor first = hx_[0].select(0, at);
    lazy::Recording r;
    const ir::Op op = is_lstm() ? ir::Op::lstm_layer : ir::Op::gru_layer;
    const ir::Value y = r.emit(op, {r.value(gates), r.value(w.hidden), r.value(first), r.value(other)},
                               ir::Attrs().add(int64_t{reverse}));
    return {r.tensor(y, at::kFloat), is_lstm() ? r.tensor(y.next(), at::kFloat) : Tensor()};
  }

  const RecurrentNetwork& network_;
  const TensorList hx_, parameters_;
};

}  // namespace

std::optional<RecurrentResults> recurrent_layers(const RecurrentNetwork& network, const Tensor& input, TensorList hx,
                                                 TensorList parameters, bool batch_first) {
  const bool is_served = network.cell == RecurrentCell::Lstm || network.cell == RecurrentCell::Gru;
  const bool drops = network.train && network.dropout > 0 && network.layers > 1;
  if (!is_served || drops || !lazy::backing().has_host_kernels || lazy::is_reference_mode() ||
      at::autocast::is_autocast_enabled(c10::kPrivateUse1) || c10::impl::dispatch_mode_enabled())
    return {};
  const Layers layers(network, hx, parameters);
  if (!layers.fit(input, batch_first)) return {};
  return layers.run(input, batch_first);
}

}  // namespace lazuli::backend
