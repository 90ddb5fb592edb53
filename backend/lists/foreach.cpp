// The `_foreach_` operators of the op table's elementwise rows, in every overload that torch has. A whole list is
// recorded in one go, without the dispatcher, as far as its tensors are what optimizers have: row-major and of one
// floating type. Any other element is recorded by the operand rules of the row's own operator (elementwise.h), and
// whatever those do not cover is torch's own loop over the list.
#include "backend/lists/foreach.h"

#include <algorithm>
#include <unordered_map>
#include "backend/record/elementwise.h"
#include "backend/record/registration.h"
#include "ir/body.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::IValue;

struct Listed {
  ir::Op op;
  bool in_place;
};
// By operator name; filled before the first call and never changed afterwards.
std::unordered_map<c10::OperatorName, Listed>& listed() {
  static auto* m = new std::unordered_map<c10::OperatorName, Listed>;
  return *m;
}

// An operand of the row: one for each element of the list, or one that all of them share.
struct Argument {
  c10::ArrayRef<IValue> each;
  IValue shared;
  bool is_list() const { return shared.isNone(); }
  const IValue& at(size_t i) const { return is_list() ? each[i] : shared; }
};

// A call's arguments as operands of a row.
struct Call {
  explicit Call(const Listed& row) : op(row.op), in_place(row.in_place) {}

  ir::Op op;
  bool in_place;
  size_t count = 0;
  c10::SmallVector<Argument, 4> arguments;
  std::vector<IValue> numbers;  // of a tensor that packs a number for each element

  // False where torch's loop has its own answer, or its error.
  bool read(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> values);

 private:
  bool read_alpha(const IValue& alpha);
  bool unpack(const Tensor& packed);
};

bool has_bool(const Argument& a) {
  const auto is_bool = [](const IValue& v) { return v.isBool(); };
  return a.is_list() ? std::ranges::any_of(a.each, is_bool) : a.shared.isBool();
}

bool Call::read(const c10::FunctionSchema& schema, c10::ArrayRef<IValue> values) {
  bool counted = false;
  for (size_t i = 0; i < values.size(); ++i) {
    const IValue& v = values[i];
    if (schema.arguments()[i].name() == "alpha") {
      if (!read_alpha(v)) return false;
    } else if (v.isList()) {
      if (counted && v.toListRef().size() != count) return false;
      count = v.toListRef().size(), counted = true;
      arguments.push_back({v.toListRef(), {}});
    } else if (v.isTensor() && schema.arguments()[i].name() == "scalars") {
      if (!unpack(v.toTensor())) return false;
    } else {
      if (v.isTensor() && v.toTensor().dim() != 0) return false;
      arguments.push_back({{}, v});
    }
  }
  if (op == ir::Op::sub && std::ranges::any_of(arguments, has_bool)) return false;  // torch subtracts none
  return count != 0 && static_cast<int>(arguments.size()) == ir::info(op).body.arity;
}

// a + alpha * b is a row of its own.
bool Call::read_alpha(const IValue& alpha) {
  c10::Scalar s = alpha.toScalar();
  if (s.isComplex() || s.isBoolean()) return false;
  if (s.isIntegral(false) && s.equal(1)) return true;  // torch refuses 1.0 for integers
  arguments.push_back({{}, IValue(op == ir::Op::sub ? -s : s)});
  op = ir::Op::add_scaled;
  return true;
}

bool Call::unpack(const Tensor& packed) {
  if (!packed.is_cpu() || packed.dim() != 1 || !packed.is_contiguous() || static_cast<size_t>(packed.numel()) != count)
    return false;
  for (size_t i = 0; i < count; ++i) numbers.emplace_back(packed[static_cast<int64_t>(i)].item());
  arguments.push_back({numbers, {}});
  return true;
}

bool same_storage(const Tensor& a, const Tensor& b) {
  return a.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl() ==
         b.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
}

// Records the elements of a call that are row-major and of one floating type.
class Elements {
 public:
  explicit Elements(const Call& call) : call_(call), shared_(call.arguments.size()) {}

  // The row applied to element i; an absent value when that is another case.
  ir::Value record(lazy::Recording& r, size_t i) {
    const Tensor* like = fit(i);
    if (!like) return {};
    c10::SmallVector<ir::Value, 4> in;
    const ir::Dims* shape = nullptr;
    ir::Type type{type_, {}};
    for (size_t a = 0; a < call_.arguments.size(); ++a) in.push_back(value(r, a, i));
    for (size_t a = 0; a < in.size() && !shape; ++a)
      if (call_.arguments[a].is_list() && call_.arguments[a].at(i).isTensor()) shape = &r.type(in[a]).shape;
    type.shape = *shape;
    return r.emit_typed(call_.op, {in.data(), in.size()}, type);
  }

  // Values of shared operands belong to one Recording.
  void forget() { std::ranges::fill(shared_, ir::Value{}); }

 private:
  // The first tensor of element i, when all of its tensors are of its floating type and shape, and row-major.
  const Tensor* fit(size_t i) {
    const Tensor* like = nullptr;
    for (const Argument& a : call_.arguments) {
      if (!a.at(i).isTensor()) {
        if (!a.at(i).isScalar() || a.at(i).isComplexDouble()) return nullptr;
        continue;
      }
      if (!a.is_list()) continue;
      const Tensor& t = a.at(i).toTensor();
      if (!t.defined()) return nullptr;
      auto* impl = t.unsafeGetTensorImpl();
      if (!impl->key_set().has_backend(c10::BackendComponent::PrivateUse1Bit) || !impl->is_contiguous() ||
          t.layout() != c10::kStrided)
        return nullptr;
      if (!like) {
        like = &t;
        continue;
      }
      if (impl->dtype() != like->dtype() || impl->sizes() != like->sizes()) return nullptr;
      // Windows of one storage may overlap, which is an error when one is written.
      if (call_.in_place && !t.is_same(*like) && same_storage(t, *like)) return nullptr;
    }
    if (!like) return nullptr;
    ir::DType type = lazy::to_ir(like->scalar_type());
    if (!ir::is_native(type) || !ir::is_floating(type)) return nullptr;
    for (const Argument& a : call_.arguments)
      if (!a.is_list() && a.shared.isTensor() &&
          (!fits(a.shared.toTensor(), *like) || is_wide_second(call_.op, a.shared.toTensor(), type)))
        return nullptr;
    if (type != type_) forget(), type_ = type;
    return like;
  }

  // Whether a shared tensor of no dimensions leaves the elements' type as it is.
  static bool fits(const Tensor& shared, const Tensor& like) {
    if (!shared.defined() || !(is_ours(shared) || is_number(shared)) || c10::isComplexType(shared.scalar_type()))
      return false;
    return like.dim() > 0 ? ir::is_native(lazy::to_ir(shared.scalar_type()))
                          : shared.scalar_type() == like.scalar_type();
  }

  ir::Value value(lazy::Recording& r, size_t a, size_t i) {
    const Argument& argument = call_.arguments[a];
    if (argument.is_list()) return one(r, argument.at(i));
    if (!shared_[a]) shared_[a] = one(r, argument.shared);
    return shared_[a];
  }
  ir::Value one(lazy::Recording& r, const IValue& v) {
    if (v.isTensor() && v.toTensor().is_privateuseone()) return r.convert(r.value(v.toTensor()), type_);
    c10::Scalar s = v.isTensor() ? number_of(v.toTensor()) : v.toScalar();
    return r.number(ir::info(call_.op).rounds_numbers ? rounded(s, type_) : s, type_);
  }

  const Call& call_;
  ir::DType type_ = ir::DType::Opaque;
  c10::SmallVector<ir::Value, 4> shared_;
};

// Element i by the operand rules of the row's own operator; false when those do not cover it.
bool record_by_rules(const Call& call, size_t i, Tensor& result) {
  Operands operands;
  for (const Argument& a : call.arguments) {
    const IValue& v = a.at(i);
    if (v.isTensor())
      operands.push_back({&v.toTensor(), {}});
    else
      operands.push_back({nullptr, v.toScalar()});
  }
  const bool subtracts = call.op == ir::Op::sub || call.op == ir::Op::add_scaled;
  for (const Operand& o : operands)  // what torch refuses of bools and integers here: arithmetic.cpp
    if (subtracts && o.tensor && !c10::isFloatingType(o.tensor->scalar_type())) return false;
  if (!call.in_place) return (result = elementwise(call.op, operands)).defined();
  result = call.arguments[0].at(i).toTensor();
  return elementwise_into(result, call.op, operands, false);
}

// Torch's own loop, over the one element.
void loop_over(const c10::OperatorHandle& op, c10::ArrayRef<IValue> values, const Call& call, size_t i,
               std::vector<Tensor>& results) {
  torch::jit::Stack stack;
  for (size_t a = 0; a < values.size(); ++a) {
    const IValue& v = values[a];
    if (v.isList()) {
      c10::impl::GenericList one(v.toList().elementType());
      one.push_back(v.toListRef()[i]);
      stack.emplace_back(std::move(one));
    } else if (op.schema().arguments()[a].name() == "scalars") {
      stack.emplace_back(v.toTensor().narrow(0, static_cast<int64_t>(i), 1));
    } else {
      stack.push_back(v);
    }
  }
  torch_loop(op, &stack);
  if (!call.in_place) results.push_back(stack.back().toListRef()[0].toTensor());
}

void boxed(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& schema = op.schema();
  auto values = torch::jit::last(*stack, schema.arguments().size());
  const Listed& row = listed().at(op.operator_name());
  Call call(row);
  if (!call.read(schema, values)) return torch_loop(op, stack);
  std::vector<Tensor> results;
  if (!call.in_place) results.reserve(call.count);
  Elements elements(call);
  std::optional<lazy::Recording> recording;
  for (size_t i = 0; i < call.count; ++i) {
    if (!recording) recording.emplace(), elements.forget();
    if (ir::Value v = elements.record(*recording, i)) {
      if (call.in_place) {
        const Tensor& t = call.arguments[0].at(i).toTensor();
        recording->write(t, v);
        t.unsafeGetTensorImpl()->bump_version();
      } else {
        results.push_back(recording->tensor(v, lazy::to_torch(recording->dtype(v))));
      }
      continue;
    }
    recording.reset();  // what follows records by itself
    if (Tensor result; record_by_rules(call, i, result)) {
      if (call.in_place)
        result.unsafeGetTensorImpl()->bump_version();
      else
        results.push_back(std::move(result));
    } else {
      loop_over(op, values, call, i, results);
    }
  }
  recording.reset();
  torch::jit::drop(*stack, schema.arguments().size());
  if (!row.in_place) stack->emplace_back(std::move(results));
}

// Operators whose row bears another name, as torch's loop has it; none where numbers decide the formula.
std::string_view row_name(std::string_view name) {
  if (name == "maximum") return "clamp_min";
  if (name == "minimum") return "clamp_max";
  return name;
}

void implement(torch::Library& m, const std::string& name, ir::Op op) {
  for (const char* overload : {"", "Scalar", "List", "ScalarList", "Tensor", "ScalarAndTensor"}) {
    // Whether pow multiplies is for each exponent to say.
    if (op == ir::Op::pow && std::string_view(overload).starts_with("Scalar") &&
        std::string_view(overload) != "ScalarAndTensor")
      continue;
    for (const char* suffix : {"", "_"}) {
      std::string full = "_foreach_" + name + suffix;
      auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + full, overload});
      if (!handle || !listed().try_emplace(handle->operator_name(), Listed{op, *suffix == '_'}).second) continue;
      m.impl((full + (*overload ? "." : "") + overload).c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed>());
    }
  }
}

}  // namespace

void torch_loop(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  // The one kernel that torch has for lists on any device is CompositeExplicitAutograd's, which CPU has too.
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
}

void register_foreach(torch::Library& m) {
  auto row_of = [](std::string_view name) {
    for (size_t i = 0; i < ir::kOpCount; ++i) {
      auto op = static_cast<ir::Op>(i);
      if (ir::is_elementwise(op) && ir::info(op).result == ir::Result::Same && !ir::info(op).infer &&
          ir::name(op) == name)
        return op;
    }
    return ir::kNoOp;
  };
  for (size_t i = 0; i < ir::kOpCount; ++i) {
    auto op = static_cast<ir::Op>(i);
    if (ir::info(op).aten.empty()) continue;
    const ir::Op row = row_of(row_name(ir::name(op)));
    if (row != ir::kNoOp) implement(m, std::string(ir::name(op)), row);
  }
  register_irregular_foreach(m);
}

}  // namespace lazuli::backend
