// Layers of recurrent networks, in double.
#include <cmath>
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// Calls f(t, b, hidden states before, the products of their rows with w) for each step and row; f changes the states.
template <class F>
void for_each_step(const Node& node, std::span<const Tensor* const> in, Tensor& out, F f) {
  const Tensor &gates = *in[0], &w = *in[1], &first = *in[2];
  const int64_t steps = gates.type.shape[0], batch = gates.type.shape[1], parts = w.type.shape[0],
                units = w.type.shape[1];
  for (int64_t b = 0; b < batch; ++b) {
    std::vector<double> h(static_cast<size_t>(units)), products(static_cast<size_t>(parts));
    for (int64_t u = 0; u < units; ++u) h[static_cast<size_t>(u)] = first.at(b * units + u);
    for (int64_t i = 0; i < steps; ++i) {
      const int64_t t = node.attrs.number(0) ? steps - 1 - i : i;
      for (int64_t p = 0; p < parts; ++p) {
        double sum = 0;
        for (int64_t u = 0; u < units; ++u) sum += h[static_cast<size_t>(u)] * w.at(p * units + u);
        products[static_cast<size_t>(p)] = sum;
      }
      for (int64_t u = 0; u < units; ++u) {
        const auto product = [&](int64_t part) { return products[static_cast<size_t>(part * units + u)]; };
        const auto gate = [&](int64_t part) { return gates.at((t * batch + b) * parts + part * units + u); };
        double& state = h[static_cast<size_t>(u)];
        state = f(b * units + u, u, state, gate, product);
        out.set((t * batch + b) * units + u, state);
      }
    }
  }
}

}  // namespace

void interpret_lstm_layer(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  out[1].data = in[3]->data;
  for_each_step(node, in, out[0], [&](int64_t at, int64_t, double, const auto& gate, const auto& product) {
    const double c =
        sigmoid(gate(1) + product(1)) * out[1].at(at) + sigmoid(gate(0) + product(0)) * std::tanh(gate(2) + product(2));
    out[1].set(at, c);
    return sigmoid(gate(3) + product(3)) * std::tanh(c);
  });
}

void interpret_gru_layer(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  for_each_step(node, in, out[0], [&](int64_t, int64_t unit, double h, const auto& gate, const auto& product) {
    const int64_t units = in[2]->type.shape[1];
    const auto with_bias = [&](int64_t part) { return product(part) + in[3]->at(part * units + unit); };
    const double reset = sigmoid(gate(0) + with_bias(0)), update = sigmoid(gate(1) + with_bias(1));
    const double fresh = std::tanh(gate(2) + reset * with_bias(2));
    return (h - fresh) * update + fresh;
  });
}

}  // namespace lazuli::ir
