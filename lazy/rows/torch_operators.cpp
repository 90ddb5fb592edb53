#include "lazy/rows/torch_operators.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <memory>
#include <sstream>
#include <variant>
#include <ATen/core/dispatch/Dispatcher.h>
#include "lazy/support/convert.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using ir::Op;
using Tensors = std::vector<Tensor>;

// How an argument is filled.
enum class Fill : uint8_t {
  Tensor,     // the next operand
  Index,      // likewise, as i64: rows' indices may be i32
  Tensors,    // all operands
  Number,     // the next operand's number
  Value,      // likewise if it has no dimensions, else the default
  Attribute,  // the next attribute
  Type,       // the first operand's element type
  Default,
  Required,  // by nobody: the operator cannot be called
};

// Operators whose arguments are the operands and nothing else are called without boxes.
template <class... More>
struct DirectCall {
  c10::TypedOperatorHandle<Tensor(const Tensor&, const More&...)> make;
  std::optional<c10::TypedOperatorHandle<Tensor&(Tensor&, const More&...)>> make_in_first;

  DirectCall(const c10::OperatorHandle& op, const std::optional<c10::OperatorHandle>& in_place)
      : make(op.typed<Tensor(const Tensor&, const More&...)>()) {
    if (in_place) make_in_first = in_place->typed<Tensor&(Tensor&, const More&...)>();
  }
  Tensor operator()(bool in_first, Tensor x, const More&... more) const {
    if (!in_first || !make_in_first) return make.call(x, more...);
    make_in_first->call(x, more...);
    return x;
  }
};
using Unary = DirectCall<>;
using Binary = DirectCall<Tensor>;
using Ternary = DirectCall<Tensor, Tensor>;
using Sum = DirectCall<Tensor, at::Scalar>;  // with its alpha
using Direct = std::variant<std::monostate, Unary, Binary, Ternary, Sum>;

struct Operator {
  c10::OperatorHandle handle;
  std::optional<c10::OperatorHandle> in_place;  // the same in the first operand's memory
  std::vector<Fill> fill;
  Direct direct;
};

c10::TypePtr type_of(const c10::Argument& a) {
  auto type = a.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  return type;
}
bool is_list_of_tensors(const c10::TypePtr& type) {
  const auto list = type->cast<c10::ListType>();
  return list && list->getElementType()->kind() == c10::TypeKind::TensorType;
}

Fill fill_of(const c10::Argument& a, bool takes_attributes) {
  const auto type = type_of(a);
  if (takes_attributes && a.name() == "dtype") return Fill::Type;
  if (a.kwarg_only()) return a.name() == "value" ? Fill::Value : a.default_value() ? Fill::Default : Fill::Required;
  if (type->kind() == c10::TypeKind::TensorType) return Fill::Tensor;
  if (is_list_of_tensors(type)) return Fill::Tensors;
  if (type->kind() == c10::TypeKind::NumberType) return Fill::Number;
  if (takes_attributes) return Fill::Attribute;
  return a.default_value() ? Fill::Default : Fill::Required;
}

bool is_index(const c10::Argument& a) { return a.name() == "index" || a.name() == "indices" || a.name() == "target"; }

Direct direct_of(const Operator& op) {
  const auto& schema = op.handle.schema();
  const auto& arguments = schema.arguments();
  const auto is_tensor = [](const c10::Argument& a) { return a.type()->kind() == c10::TypeKind::TensorType; };
  if (schema.returns().size() != 1 || !is_tensor(schema.returns()[0])) return {};
  const auto tensors = std::ranges::find_if_not(arguments, is_tensor) - arguments.begin();
  if (tensors == 2 && arguments.size() == 3 && arguments[2].name() == "alpha") return Sum(op.handle, op.in_place);
  if (static_cast<size_t>(tensors) != arguments.size()) return {};
  if (tensors == 1) return Unary(op.handle, op.in_place);
  if (tensors == 2) return Binary(op.handle, op.in_place);
  if (tensors == 3) return Ternary(op.handle, op.in_place);
  return {};
}
// Undefined if it takes other operands than these.
Tensor call(const Direct& direct, const Tensors& in, bool in_first) {
  if (const auto* one = std::get_if<Unary>(&direct); one && in.size() == 1) return (*one)(in_first, in[0]);
  if (const auto* two = std::get_if<Binary>(&direct); two && in.size() == 2) return (*two)(in_first, in[0], in[1]);
  if (const auto* sum = std::get_if<Sum>(&direct); sum && in.size() == 2) return (*sum)(in_first, in[0], in[1], 1);
  if (const auto* three = std::get_if<Ternary>(&direct); three && in.size() == 3)
    return (*three)(in_first, in[0], in[1], in[2]);
  return {};
}

std::vector<Operator> find_operators(Op op) {
  const ir::OpInfo& row = ir::info(op);
  std::vector<Operator> found;
  std::istringstream names{std::string(row.computed_by.empty() ? row.aten : row.computed_by)};
  for (std::string name; names >> name;) {
    const size_t dot = name.find('.');
    const std::string base = "aten::" + name.substr(0, dot), overload = dot == name.npos ? "" : name.substr(dot + 1);
    const auto handle = c10::Dispatcher::singleton().findSchema({base, overload});
    if (!handle) continue;
    found.push_back({*handle, c10::Dispatcher::singleton().findSchema({base + "_", overload}), {}, {}});
    auto attributes = std::ranges::find(row.attrs, std::string_view{}) - row.attrs.begin();
    for (const c10::Argument& a : handle->schema().arguments()) {
      Fill how = fill_of(a, !ir::is_elementwise(op));
      if (how == Fill::Attribute && attributes-- <= 0) how = Fill::Default;  // there is none left
      if (how == Fill::Tensor && row.checks_index && is_index(a)) how = Fill::Index;
      found.back().fill.push_back(how);
    }
    if (!row.checks_index) found.back().direct = direct_of(found.back());
  }
  return found;
}

// Found when a row is asked for first: torch reads an operator's schema then, and a program needs few of them. Kept for
// good.
const std::vector<Operator>& operators_of(Op op) {
  using Found = const std::vector<Operator>;
  static auto& table = *new std::array<std::atomic<Found*>, ir::kOpCount>{};
  std::atomic<Found*>& place = table[static_cast<size_t>(op)];
  if (Found* known = place.load(std::memory_order_acquire)) return *known;
  auto made = std::make_unique<Found>(find_operators(op));
  Found* other = nullptr;  // of a thread that was first
  return place.compare_exchange_strong(other, made.get(), std::memory_order_acq_rel) ? *made.release() : *other;
}

// Fills an operator's arguments from a row's operands and attributes.
class Filler {
 public:
  Filler(const ir::Node& node, const Tensors& in) : node_(node), in_(in) {}

  // False if they do not fit.
  bool fill(const Operator& op, torch::jit::Stack& stack) {
    const auto& arguments = op.handle.schema().arguments();
    for (size_t i = 0; i < arguments.size(); ++i)
      if (!push(arguments[i], op.fill[i], stack)) return false;
    return operand_ == in_.size();
  }

 private:
  bool push(const c10::Argument& a, Fill how, torch::jit::Stack& stack) {
    const bool is_number = operand_ < in_.size() && in_[operand_].defined() && in_[operand_].dim() == 0;
    if (how == Fill::Value) how = is_number ? Fill::Number : Fill::Default;
    const bool is_operand = how == Fill::Tensor || how == Fill::Index || how == Fill::Number;
    if (operand_ == in_.size() && is_operand) how = Fill::Default;
    switch (how) {
      case Fill::Tensor:
        stack.emplace_back(in_[operand_++]);
        return true;
      case Fill::Index:
        stack.emplace_back(as_index(in_[operand_++]));
        return true;
      case Fill::Tensors:
        stack.emplace_back(in_);
        operand_ = in_.size();
        return true;
      case Fill::Number:
        if (is_number) stack.emplace_back(in_[operand_++].item());
        return is_number;
      case Fill::Attribute:
        stack.push_back(attribute(a));
        return true;
      case Fill::Type:
        stack.emplace_back(in_[0].scalar_type());
        return true;
      case Fill::Default:
        return push_default(a, stack);
      default:
        return false;
    }
  }

  static bool push_default(const c10::Argument& a, torch::jit::Stack& stack) {
    if (a.default_value())
      stack.push_back(*a.default_value());
    else if (a.type()->kind() == c10::TypeKind::OptionalType)
      stack.emplace_back();
    else
      return false;
    return true;
  }

  static Tensor as_index(const Tensor& x) { return x.scalar_type() == at::kInt ? x.to(at::kLong) : x; }

  // A number for what may be absent is absent when it is 0.
  c10::IValue attribute(const c10::Argument& a) {
    const size_t i = attribute_++;
    switch (type_of(a)->kind()) {
      case c10::TypeKind::ListType:
        return list_of(node_.attrs, i);
      case c10::TypeKind::BoolType:
        return node_.attrs.number(i) != 0;
      default:
        if (a.type()->kind() == c10::TypeKind::OptionalType && node_.attrs.number(i) == 0) return {};
        return node_.attrs.number(i);
    }
  }

  const ir::Node& node_;
  const Tensors& in_;
  size_t operand_ = 0, attribute_ = 0;
};

}  // namespace

bool has_operator_of(Op op, size_t operands) {
  return std::ranges::any_of(operators_of(op), [&](const Operator& candidate) {
    switch (operands) {
      case 1:
        return std::holds_alternative<Unary>(candidate.direct);
      case 2:
        return std::holds_alternative<Binary>(candidate.direct) || std::holds_alternative<Sum>(candidate.direct);
      case 3:
        return std::holds_alternative<Ternary>(candidate.direct);
      default:
        return false;
    }
  });
}

std::optional<Tensors> call_operator(const ir::Node& node, const Tensors& in, bool in_first) {
  for (const Operator& candidate : operators_of(node.op)) {
    if (Tensor made = call(candidate.direct, in, in_first); made.defined()) return Tensors{std::move(made)};
    torch::jit::Stack stack;
    if (!Filler(node, in).fill(candidate, stack)) continue;
    (in_first && candidate.in_place ? *candidate.in_place : candidate.handle).callBoxed(stack);
    Tensors made;
    for (const c10::IValue& v : stack) made.push_back(v.toTensor());
    return made;
  }
  return {};
}

}  // namespace lazuli::lazy
