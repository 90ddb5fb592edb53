// The recurrent cells that torch takes for fused on every accelerator. They are recorded in other ops, which the trace
// fuses anyway, and so are their derivatives. Where torch's own autograd takes these, the workspace that goes from
// forward to backward is of our own layout.
#include <algorithm>
#include <ATen/ATen.h>
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

bool given(const optional<Tensor>& t) { return t && t->defined(); }

// A cell that is recorded without torch's dispatcher.
struct Cell {
  lazy::Recording r;

  ir::Value with_biases(ir::Value gates, const optional<Tensor>& bias, const optional<Tensor>& other = {}) {
    for (const auto* b : {&bias, &other})
      if (given(*b)) gates = r.add(gates, r.value(**b));
    return gates;
  }
  // One of `count` equal pieces of the columns.
  ir::Value piece(ir::Value x, int64_t i, int64_t count) {
    ir::Dims sizes = r.shape(x), starts(sizes.size(), 0);
    sizes[1] = sizes[1] / count;
    starts[1] = sizes[1] * i;
    return r.emit(ir::Op::slice, {x}, ir::Attrs().add(starts).add(sizes).add(ir::Dims(sizes.size(), 1)));
  }
  Tensor tensor(ir::Value v) { return r.tensor(v, lazy::to_torch(r.dtype(v))); }
  Tensor side_by_side(std::initializer_list<ir::Value> pieces) { return tensor(r.emit(ir::Op::cat, pieces, {{1}})); }
};

// Whether that is all there is to it: matrices of `pieces` pieces in a row, and all of one real type on the device.
// What else there may be, and what is wrong, is for torch's operators.
bool is_plain_cell(std::initializer_list<const Tensor*> gates, int64_t pieces, const Tensor& state,
                   std::initializer_list<const optional<Tensor>*> biases) {
  const at::ScalarType type = state.scalar_type();
  const auto fits = [&](const Tensor& t) { return is_floating(t) && t.scalar_type() == type; };
  const auto is_gates = [&](const Tensor* t) { return fits(*t) && t->dim() == 2 && t->size(1) % pieces == 0; };
  return !lazy::is_reference_mode() && fits(state) && std::ranges::all_of(gates, is_gates) &&
         std::ranges::all_of(biases, [&](const optional<Tensor>* b) { return !given(*b) || fits(**b); });
}

Tensor d_sigmoid(const Tensor& y) { return y * (1 - y); }
Tensor d_tanh(const Tensor& y) { return 1 - y * y; }

// hy, cy and the four activated gates side by side.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  if (!is_plain_cell({&input_gates, &hidden_gates}, 4, cx, {&input_bias, &hidden_bias})) {
    const Tensor sum = input_gates + hidden_gates;
    auto gates = (given(input_bias) ? sum + *input_bias + *hidden_bias : sum).chunk(4, 1);
    Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
    Tensor cy = forget * cx + in * cell;
    return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
  }
  Cell c;
  lazy::Recording& r = c.r;
  const ir::Value gates = c.with_biases(r.add(r.value(input_gates), r.value(hidden_gates)), input_bias, hidden_bias);
  const auto gate = [&](int64_t i, ir::Op activation) { return r.emit(activation, {c.piece(gates, i, 4)}); };
  const ir::Value in = gate(0, ir::Op::sigmoid), forget = gate(1, ir::Op::sigmoid), cell = gate(2, ir::Op::tanh),
                  out = gate(3, ir::Op::sigmoid);
  const ir::Value cy = r.add(r.mul(forget, r.value(cx)), r.mul(in, cell));
  return {c.tensor(r.mul(out, r.emit(ir::Op::tanh, {cy}))), c.tensor(cy), c.side_by_side({in, forget, cell, out})};
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
  if (!is_plain_cell({&input_gates, &hidden_gates}, 3, hidden, {&input_bias, &hidden_bias})) {
    auto of_input = (given(input_bias) ? input_gates + *input_bias : input_gates).chunk(3, 1);
    auto of_hidden = (given(hidden_bias) ? hidden_gates + *hidden_bias : hidden_gates).chunk(3, 1);
    Tensor reset = (of_input[0] + of_hidden[0]).sigmoid(), update = (of_input[1] + of_hidden[1]).sigmoid();
    Tensor fresh = (of_input[2] + reset * of_hidden[2]).tanh();
    return {fresh + update * (hidden - fresh), at::cat({reset, update, fresh, hidden, of_hidden[2]}, 1)};
  }
  Cell c;
  lazy::Recording& r = c.r;
  const ir::Value of_input = c.with_biases(r.value(input_gates), input_bias),
                  of_hidden = c.with_biases(r.value(hidden_gates), hidden_bias), hx = r.value(hidden);
  const auto gate = [&](int64_t i) {
    return r.emit(ir::Op::sigmoid, {r.add(c.piece(of_input, i, 3), c.piece(of_hidden, i, 3))});
  };
  const ir::Value reset = gate(0), update = gate(1), of_new = c.piece(of_hidden, 2, 3);
  const ir::Value fresh = r.emit(ir::Op::tanh, {r.add(c.piece(of_input, 2, 3), r.mul(reset, of_new))});
  return {c.tensor(r.add(fresh, r.mul(update, r.sub(hx, fresh)))), c.side_by_side({reset, update, fresh, hx, of_new})};
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
