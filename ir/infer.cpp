#include "ir/infer.h"
#include "ir/error.h"

namespace lazuli::ir {
namespace {

[[noreturn, gnu::cold]] void types_differ(const OpInfo& row, DType a, DType b) {
  throw TypeError(std::string(row.name) + ": operands have different types, " + std::string(name(a)) + " and " +
                  std::string(name(b)));
}

[[noreturn, gnu::cold]] void misapplied(const OpInfo& row, size_t inputs, size_t results) {
  throw InternalError(std::string(row.name) + " is applied to " + std::to_string(inputs) +
                      " operands, or misses one, for " + std::to_string(results) + " results");
}

void infer_elementwise(const OpInfo& row, std::span<const Type* const> in, const Attrs& attrs, Type& out) {
  DType common = in[0]->dtype;
  out.shape = in[0]->shape;
  for (const Type* t : in.subspan(1)) {
    if (t->dtype != common) types_differ(row, common, t->dtype);
    broadcast_into(out.shape, t->shape);
  }
  switch (row.result) {
    case Result::Same:
      out.dtype = common;
      break;
    case Result::Bool:
      out.dtype = DType::Bool;
      break;
    case Result::Attr:
      out.dtype = static_cast<DType>(attrs.number(0));
      break;
  }
  // Of rows that take operands as they come, those that an operator records are for floating types.
  const bool floating = row.promote == Promote::Floating || (row.promote == Promote::None && !row.aten.empty());
  if (floating && !is_floating(common))
    throw TypeError(std::string(row.name) + ": expected a floating type, got " + std::string(name(common)));
}

}  // namespace

void infer(Op op, std::span<const Type* const> inputs, const Attrs& attrs, std::span<Type> results) {
  const OpInfo& row = info(op);
  bool fits = (row.arity < 0 || static_cast<size_t>(row.arity) == inputs.size()) &&
              (row.results < 0 || static_cast<size_t>(row.results) == results.size());
  for (size_t i = 0; i < inputs.size(); ++i)
    fits &= inputs[i] || (i < 32 && row.optional >> i & 1) || row.kind == Kind::External;
  if (!fits) [[unlikely]]
    misapplied(row, inputs.size(), results.size());
  if (row.infer) {
    row.infer(inputs, attrs, results);
  } else if (row.kind == Kind::Elementwise) {
    infer_elementwise(row, inputs, attrs, results[0]);
  }
}

}  // namespace lazuli::ir
