#include "backend/record/by_parts.h"

#include <numeric>
#include <unordered_set>
#include <ATen/ops/view_as_complex.h>
#include "backend/record/complex_numbers.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::IValue;

// Of sums those over dimensions.
bool moves_or_adds(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string> names = {"aten::cat",
                                                        "aten::constant_pad_nd",
                                                        "aten::flip",
                                                        "aten::index_select",
                                                        "aten::masked_fill",
                                                        "aten::masked_fill_",
                                                        "aten::mean",
                                                        "aten::roll",
                                                        "aten::select_backward",
                                                        "aten::slice_backward",
                                                        "aten::sum",
                                                        "aten::where"};
  const std::string &name = op.schema().name(), &overload = op.schema().overload_name();
  if (name == "aten::sum" || name == "aten::mean") return overload == "dim_IntList" || overload == "dim";
  return names.contains(name);
}

// The format that the result has: that of the operands where they have one in common, else none. The parts, which have
// one more dimension, show none.
at::MemoryFormat format_of_result(const c10::OperatorHandle& op, const std::vector<IValue>& arguments) {
  static const std::unordered_set<std::string> keeping = {"aten::cat", "aten::constant_pad_nd", "aten::roll"};
  if (!keeping.contains(op.schema().name())) return at::MemoryFormat::Contiguous;
  const IValue& from = arguments[0];
  const std::vector<Tensor> all = from.isTensor() ? std::vector<Tensor>{from.toTensor()} : from.toTensorVector();
  const at::MemoryFormat format = all[0].suggest_memory_format();
  const bool agree = std::ranges::all_of(all, [&](const Tensor& t) { return t.suggest_memory_format() == format; });
  return agree ? format : at::MemoryFormat::Contiguous;
}

bool has_complex(const IValue& v) {
  if (v.isTensor()) return v.toTensor().defined() && v.toTensor().is_complex();
  if (!v.isTensorList()) return false;
  const std::vector<Tensor> list = v.toTensorVector();
  return std::ranges::any_of(list, [](const Tensor& t) { return t.is_complex(); });
}

// The arguments for the parts, one after the other. Of what it does not know the whole call is eager's.
class Arguments {
 public:
  explicit Arguments(const c10::FunctionSchema& schema) : schema_(schema) {}

  bool take(const std::vector<IValue>& arguments) {
    for (const IValue& v : arguments)
      if (has_complex(v) && !note(v)) return false;
    for (size_t i = 0; i < arguments.size(); ++i) {
      std::optional<IValue> v = part(schema_.arguments()[i], arguments[i]);
      if (!v) return false;
      parts.push_back(*std::move(v));
    }
    return true;
  }

  std::vector<IValue> parts;

 private:
  // All of one type, whose numbers of dimensions are alike where dimensions have numbers.
  bool note(const IValue& v) {
    const std::vector<Tensor> tensors = v.isTensor() ? std::vector<Tensor>{v.toTensor()} : v.toTensorVector();
    return std::ranges::all_of(tensors, [&](const Tensor& t) {
      if (!has_parts(t)) return false;
      if (type_ == c10::ScalarType::Undefined) type_ = t.scalar_type();
      rank_ = std::max(rank_, t.dim());
      return t.scalar_type() == type_;
    });
  }

  // Dimensions are numbered from the front, so that there may be one more; those of what a derivative is to have may be
  // more than its operand's.
  std::optional<int64_t> dimension(int64_t d, int64_t rank) const {
    if (d < -rank || d >= rank) return {};
    return d < 0 ? d + rank : d;
  }
  std::optional<IValue> dimensions(const IValue& v) const {
    std::vector<int64_t> out;
    if (v.isNone()) return {};
    for (const int64_t d : v.toIntVector()) {
      const auto known = dimension(d, rank_);
      if (!known) return {};
      out.push_back(*known);
    }
    if (out.empty()) return {};  // of a single number: no dimensions are all of them
    return IValue(out);
  }

  std::optional<IValue> part(const c10::Argument& argument, const IValue& v) {
    const std::string& name = argument.name();
    if (has_complex(v)) {
      if (name == "value") return {};
      if (v.isTensor()) return IValue(parts_of(v.toTensor()));
      c10::List<Tensor> list;
      for (const Tensor& t : v.toTensorVector()) {
        if (t.dim() != rank_) return {};
        list.push_back(parts_of(t));
      }
      return IValue(list);
    }
    if (v.isTensor()) {
      const Tensor& t = v.toTensor();
      if (!is_ours(t)) return {};
      if (name == "index") return v;
      if ((name == "condition" || name == "mask") && t.scalar_type() == c10::kBool) return IValue(t.unsqueeze(-1));
      return {};
    }
    if (name == "input_sizes") {
      std::vector<int64_t> sizes = v.toIntVector();
      rank_ = static_cast<int64_t>(sizes.size());
      sizes.push_back(2);
      return IValue(sizes);
    }
    if (name == "pad") {
      std::vector<int64_t> amounts = v.toIntVector();
      amounts.insert(amounts.begin(), 2, 0);
      return IValue(amounts);
    }
    if (name == "value") return v.isScalar() && v.toScalar().equal(0) ? std::optional(v) : std::nullopt;
    if (name == "dtype") return v.isNone() ? std::optional(v) : std::nullopt;
    if (name == "dims") return v.toIntVector().empty() ? std::nullopt : dimensions(v);
    if (name == "dim" && !v.isInt()) {
      std::vector<int64_t> all(static_cast<size_t>(rank_));
      std::iota(all.begin(), all.end(), 0);
      return dimensions(v.isNone() || v.toIntVector().empty() ? IValue(all) : v);
    }
    if (name == "dim") {
      const auto d = dimension(v.toInt(), rank_);
      return d ? std::optional<IValue>(*d) : std::nullopt;
    }
    return v;
  }

  const c10::FunctionSchema& schema_;
  c10::ScalarType type_ = c10::ScalarType::Undefined;
  int64_t rank_ = 0;
};

}  // namespace

bool call_by_parts(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!moves_or_adds(op)) return false;
  const auto& schema = op.schema();
  const auto last = torch::jit::last(*stack, schema.arguments().size());
  const std::vector<IValue> arguments(last.begin(), last.end());
  const bool writes = schema.arguments()[0].alias_info() && schema.arguments()[0].alias_info()->isWrite();
  if (schema.arguments().back().is_out()) return false;
  if (std::ranges::none_of(arguments, has_complex) || (writes && !has_complex(arguments[0])) ||
      schema.returns().size() != 1)
    return false;
  Arguments taken(schema);
  if (!taken.take(arguments)) return false;
  const at::MemoryFormat format = format_of_result(op, arguments);
  torch::jit::Stack call = std::move(taken.parts);
  op.callBoxed(&call);
  Tensor result = call.back().toTensor();
  torch::jit::drop(*stack, arguments.size());
  if (writes) {
    stack->push_back(arguments[0]);
  } else {
    const Tensor whole = at::view_as_complex(result.stride(-1) == 1 ? result : result.contiguous());
    stack->emplace_back(format == at::MemoryFormat::Contiguous ? whole : whole.contiguous(format));
  }
  return true;
}

}  // namespace lazuli::backend
