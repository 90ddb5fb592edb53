// The table. Rows are expanded once, here.
#include <limits>
#include <unordered_map>
#include "ir/body.h"
#include "ir/interpret/rules.h"
#include "ir/op.h"
#include "ir/rules/formulas.h"
#include "ir/rules/rules.h"

namespace lazuli::ir {
namespace {

template <Op op>
Scalar derived(const Scalar* operands) {
  return derived_body(op, operands);
}

// Completes a row: its name, and the derived body of a derivative that has none of its own.
template <Op op>
constexpr OpInfo row(OpInfo r, std::string_view name) {
  r.name = name;
  if (r.kind == Kind::Elementwise && r.derivative_of != kNoOp && !r.body) r.body = Body(&derived<op>, r.arity);
  return r;
}

}  // namespace

constinit const std::array<OpInfo, kOpCount> kOps = {
#define OP(name, ...) row<Op::name>(OpInfo{__VA_ARGS__}, #name),
#include "ir/ops/all.def"
#undef OP
};

bool parse_op(std::string_view name, Op& out) {
  static const auto* by_name = [] {
    auto* m = new std::unordered_map<std::string_view, Op>;
    for (size_t i = 0; i < kOpCount; ++i) m->emplace(kOps[i].name, static_cast<Op>(i));
    return m;
  }();
  auto it = by_name->find(name);
  if (it == by_name->end()) return false;
  out = it->second;
  return true;
}

}  // namespace lazuli::ir
