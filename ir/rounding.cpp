#include "ir/rounding.h"

#include <algorithm>
#include "ir/graph.h"

namespace lazuli::ir {
namespace {

bool is_exact(Prim p) {
  switch (p) {
    case Prim::argument:
    case Prim::literal:
    case Prim::minimum:
    case Prim::maximum:
    case Prim::neg:
    case Prim::abs:
    case Prim::floor:
    case Prim::ceil:
    case Prim::trunc:
    case Prim::round:
    case Prim::eq:
    case Prim::ne:
    case Prim::lt:
    case Prim::le:
    case Prim::bit_and:
    case Prim::bit_or:
    case Prim::bit_xor:
    case Prim::bit_not:
    case Prim::select:
    case Prim::check_index:
    case Prim::random:
      return true;
    default:
      return false;
  }
}

bool is_exact(const ScalarNode& n) { return is_exact(n.prim) || (n.prim == Prim::convert && n.dtype == DType::Bool); }

bool is_rounded_once(Prim p) {
  return p == Prim::add || p == Prim::sub || p == Prim::mul || p == Prim::div || p == Prim::sqrt;
}

// The body's steps, for operands of float32.
std::vector<ScalarNode> steps(const Body& body) {
  ScalarGraph g;
  std::vector<Scalar> operands;
  for (int i = 0; i < body.arity; ++i) operands.push_back(argument(g, static_cast<uint16_t>(i), DType::F32));
  body.call(operands.data());
  return {g.nodes().begin(), g.nodes().end()};
}

bool has_exact_steps(const Body& body) {
  return std::ranges::all_of(steps(body), [](const ScalarNode& n) { return is_exact(n); });
}

bool find_whether_rounded_once(const OpInfo& row) {
  if (row.kind != Kind::Elementwise) return false;
  if (&row == &info(Op::convert)) return true;
  const std::vector<ScalarNode> all = steps(row.body);
  const auto rounding = std::ranges::count_if(all, [](const ScalarNode& n) { return !is_exact(n); });
  return rounding == 1 && std::ranges::any_of(all, [](const ScalarNode& n) { return is_rounded_once(n.prim); });
}

bool find_whether_exact(const OpInfo& row) {
  switch (row.kind) {
    case Kind::Leaf:
    case Kind::View:
      return true;
    case Kind::Elementwise:
      return row.exact || (&row != &info(Op::convert) && has_exact_steps(row.body));
    case Kind::Reduction:
      return row.combine != Combine::Sum && row.combine != Combine::Prod;
    case Kind::Index:
    case Kind::Window:
      return !row.terms;
    default:
      return false;
  }
}

}  // namespace

bool is_exact(Op op) {
  static const auto rows = [] {
    std::array<bool, kOpCount> exact{};
    for (size_t i = 0; i < kOpCount; ++i) exact[i] = find_whether_exact(kOps[i]);
    return exact;
  }();
  return rows[static_cast<size_t>(op)];
}

bool is_rounded_once(Op op) {
  static const auto rows = [] {
    std::array<bool, kOpCount> once{};
    for (size_t i = 0; i < kOpCount; ++i) once[i] = is_exact(static_cast<Op>(i)) || find_whether_rounded_once(kOps[i]);
    return once;
  }();
  return rows[static_cast<size_t>(op)];
}

int64_t terms(Op op, std::span<const Type* const> inputs, const Attrs& attrs, const Type& result) {
  const OpInfo& row = info(op);
  if (row.terms) return row.terms(inputs, attrs, result);
  if (row.kind != Kind::Reduction || is_exact(op)) return 0;
  return int64_t{inputs[0]->numel()} / std::max<int64_t>(result.numel(), 1);
}

}  // namespace lazuli::ir
