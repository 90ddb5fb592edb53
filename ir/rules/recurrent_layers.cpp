// Shape rules of layers of recurrent networks.
#include "ir/rules/check.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

// Of operands gates, w and h; the fourth has the shape `other`.
void check_layer(std::span<const Type* const> in, int64_t parts, const Dims& other) {
  const Dims &gates = in[0]->shape, &w = in[1]->shape, &h = in[2]->shape;
  for (const Type* t : in)
    if (t->dtype != DType::F32) type_error("recurrent layer: expected float32, but got ", name(t->dtype));
  const bool fits = gates.size() == 3 && w.size() == 2 && h.size() == 2 && w[0] == parts * w[1] && h[1] == w[1] &&
                    gates[1] == h[0] && gates[2] == w[0] && in[3]->shape == other;
  if (!fits)
    type_error("recurrent layer: gates of ", list_text(gates), " do not fit weights of ", list_text(w), ", states of ",
               list_text(h), " and ", list_text(in[3]->shape));
}
Type hidden_states(std::span<const Type* const> in) {
  return {in[0]->dtype, {in[0]->shape[0], in[2]->shape[0], in[2]->shape[1]}};
}

}  // namespace

void infer_lstm_layer(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  check_layer(in, 4, in[2]->shape);
  out[0] = hidden_states(in);
  out[1] = *in[3];
}

void infer_gru_layer(std::span<const Type* const> in, const Attrs&, std::span<Type> out) {
  check_layer(in, 3, Dims{in[1]->shape.empty() ? Size(0) : in[1]->shape[0]});
  out[0] = hidden_states(in);
}

// Of all steps: each sums up what the one before gave.
int64_t terms_recurrent_layer(std::span<const Type* const> in, const Attrs&, const Type&) {
  return in[0]->shape[0] * in[1]->shape[1];
}

}  // namespace lazuli::ir
