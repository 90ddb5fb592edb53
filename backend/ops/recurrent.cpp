// The recurrent cells that torch takes for fused on every accelerator. They are recorded in other ops, which the trace
// fuses anyway, and so are their derivatives. Where torch's own autograd takes these, the workspace that goes from
// forward to backward is of our own layout.
#include <ATen/ATen.h>
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

bool given(const optional<Tensor>& t) { return t && t->defined(); }

// A cell that is being recorded. Operands of two types meet in that to which torch promotes them.
struct Cell {
  lazy::Recording r;

  ir::Value add(ir::Value a, ir::Value b) { return both(ir::Op::add, a, b); }
  ir::Value sub(ir::Value a, ir::Value b) { return both(ir::Op::sub, a, b); }
  ir::Value mul(ir::Value a, ir::Value b) { return both(ir::Op::mul, a, b); }
  ir::Value with_bias(ir::Value gates, const optional<Tensor>& bias) {
    return given(bias) ? add(gates, r.value(*bias)) : gates;
  }
  ir::Value with_biases(ir::Value gates, const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
    return given(input_bias) ? add(add(gates, r.value(*input_bias)), r.value(*hidden_bias)) : gates;
  }
  // One of `count` equal pieces of the columns.
  ir::Value piece(ir::Value x, int64_t i, int64_t count) {
    ir::Dims sizes = r.shape(x), starts(sizes.size(), 0);
    sizes[1] = sizes[1] / count;
    starts[1] = sizes[1] * i;
    return r.emit(ir::Op::slice, {x}, ir::Attrs().add(starts).add(sizes).add(ir::Dims(sizes.size(), 1)));
  }
  Tensor tensor(ir::Value v) { return r.tensor(v, lazy::to_torch(r.dtype(v))); }
  Tensor workspace(std::initializer_list<ir::Value> pieces) {
    const ir::DType type = widest(pieces);
    c10::SmallVector<ir::Value, 5> list;
    for (ir::Value v : pieces) list.push_back(r.convert(v, type));
    return tensor(r.emit(ir::Op::cat, std::span<const ir::Value>(list.data(), list.size()), {{1}}));
  }

 private:
  ir::DType widest(std::span<const ir::Value> values) {
    ir::DType type = r.dtype(values[0]);
    for (ir::Value v : values) type = lazy::to_ir(c10::promoteTypes(lazy::to_torch(type), lazy::to_torch(r.dtype(v))));
    return type;
  }
  ir::Value both(ir::Op op, ir::Value a, ir::Value b) {
    const ir::DType type = widest(std::array{a, b});
    return r.emit(op, {r.convert(a, type), r.convert(b, type)});
  }
};

Tensor d_sigmoid(const Tensor& y) { return y * (1 - y); }
Tensor d_tanh(const Tensor& y) { return 1 - y * y; }

// hy, cy and the four activated gates side by side.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  Cell c;
  const ir::Value gates =
      c.with_biases(c.add(c.r.value(input_gates), c.r.value(hidden_gates)), input_bias, hidden_bias);
  const auto gate = [&](int64_t i, ir::Op activation) { return c.r.emit(activation, {c.piece(gates, i, 4)}); };
  const ir::Value in = gate(0, ir::Op::sigmoid), forget = gate(1, ir::Op::sigmoid), cell = gate(2, ir::Op::tanh),
                  out = gate(3, ir::Op::sigmoid);
  const ir::Value cy = c.add(c.mul(forget, c.r.value(cx)), c.mul(in, cell));
  return {c.tensor(c.mul(out, c.r.emit(ir::Op::tanh, {cy}))), c.tensor(cy), c.workspace({in, forget, cell, out})};
}

// Gradients of the gates before activation, of cx, and of either bias.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const optional<Tensor>& grad_hy, const optional<Tensor>& grad_cy,
                                                      const Tensor& cx, const Tensor& cy, const Tensor& workspace,
                                                      bool has_bias) {
  if (!given(grad_hy) && !given(grad_cy)) return {};
  auto gates = workspace.chunk(4, 1);
  const Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  Tensor tanh_cy = cy.tanh();
  Tensor gh = given(grad_hy) ? *grad_hy : at::zeros_like(cy);
  Tensor gc = gh * out * d_tanh(tanh_cy);
  if (given(grad_cy)) gc = gc + *grad_cy;
  Tensor grad_gates = at::cat(
      {gc * cell * d_sigmoid(in), gc * cx * d_sigmoid(forget), gc * in * d_tanh(cell), gh * tanh_cy * d_sigmoid(out)},
      1);
  return {grad_gates, gc * forget, has_bias ? grad_gates.sum(0) : Tensor()};
}

// hy; and reset, update and new gate, hx, and the hidden part of the new gate side by side.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  Cell c;
  const ir::Value of_input = c.with_bias(c.r.value(input_gates), input_bias),
                  of_hidden = c.with_bias(c.r.value(hidden_gates), hidden_bias), hx = c.r.value(hidden);
  const auto gate = [&](int64_t i) {
    return c.r.emit(ir::Op::sigmoid, {c.add(c.piece(of_input, i, 3), c.piece(of_hidden, i, 3))});
  };
  const ir::Value reset = gate(0), update = gate(1), of_new = c.piece(of_hidden, 2, 3);
  const ir::Value fresh = c.r.emit(ir::Op::tanh, {c.add(c.piece(of_input, 2, 3), c.mul(reset, of_new))});
  return {c.tensor(c.add(fresh, c.mul(update, c.sub(hx, fresh)))), c.workspace({reset, update, fresh, hx, of_new})};
}

// Gradients of the gates of the input and of the hidden state, of hx, and of the two biases.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& g, const Tensor& workspace,
                                                                     bool has_bias) {
  auto kept = workspace.chunk(5, 1);
  const Tensor &reset = kept[0], &update = kept[1], &fresh = kept[2], &hx = kept[3], &hidden = kept[4];
  Tensor g_fresh = g * (1 - update) * d_tanh(fresh);
  Tensor g_update = g * (hx - fresh) * d_sigmoid(update);
  Tensor g_reset = g_fresh * hidden * d_sigmoid(reset);
  Tensor of_input = at::cat({g_reset, g_update, g_fresh}, 1);
  Tensor of_hidden = at::cat({g_reset, g_update, g_fresh * reset}, 1);
  if (!has_bias) return {of_input, of_hidden, g * update, Tensor(), Tensor()};
  return {of_input, of_hidden, g * update, of_input.sum(0), of_hidden.sum(0)};
}

}  // namespace

void register_recurrent(torch::Library& m) {
  m.impl("_thnn_fused_lstm_cell", lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", gru_cell_backward);
}

}  // namespace lazuli::backend
