// The recurrent cells that torch takes for fused on every accelerator. They are written in other ops, which the trace
// fuses anyway; the workspace that goes from forward to backward is of our own layout.
#include <ATen/ATen.h>
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using std::optional;

bool given(const optional<Tensor>& t) { return t && t->defined(); }

Tensor with_biases(const Tensor& gates, const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  return given(input_bias) ? gates + *input_bias + *hidden_bias : gates;
}
Tensor d_sigmoid(const Tensor& y) { return y * (1 - y); }
Tensor d_tanh(const Tensor& y) { return 1 - y * y; }

// hy, cy and the four activated gates side by side.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cx,
                                             const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto gates = with_biases(input_gates + hidden_gates, input_bias, hidden_bias).chunk(4, 1);
  Tensor in = gates[0].sigmoid(), forget = gates[1].sigmoid(), cell = gates[2].tanh(), out = gates[3].sigmoid();
  Tensor cy = forget * cx + in * cell;
  return {out * cy.tanh(), cy, at::cat({in, forget, cell, out}, 1)};
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
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hx,
                                    const optional<Tensor>& input_bias, const optional<Tensor>& hidden_bias) {
  auto of_input = (given(input_bias) ? input_gates + *input_bias : input_gates).chunk(3, 1);
  auto of_hidden = (given(hidden_bias) ? hidden_gates + *hidden_bias : hidden_gates).chunk(3, 1);
  Tensor reset = (of_input[0] + of_hidden[0]).sigmoid(), update = (of_input[1] + of_hidden[1]).sigmoid();
  Tensor fresh = (of_input[2] + reset * of_hidden[2]).tanh();
  return {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, of_hidden[2]}, 1)};
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
