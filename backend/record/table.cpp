// Registration of the elementwise rows from the op table: each ATen operator that a row names, with its in-place and
// out forms, records that row. add and sub, which have a factor, have kernels of their own (arithmetic.cpp).
#include "backend/record/dispatch.h"
#include "backend/record/elementwise.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

enum class Form : uint8_t { Functional, InPlace, Out };

// One of the forms in which an operator records a row.
struct Recorder {
  ir::Op op;
  Form form;
  c10::OperatorHandle handle;

  Tensor functional(const Operands& operands, const auto&... arguments) const {
    if (Tensor t = elementwise(op, operands); t.defined()) return t;
    return uncovered(arguments...);
  }
  Tensor& into(Tensor& out, const Operands& operands, const auto&... arguments) const {
    if (!elementwise_into(out, op, operands, form == Form::Out)) uncovered(arguments...);
    return out;
  }
  Tensor uncovered(const auto&... arguments) const {
    torch::jit::Stack stack;
    torch::jit::push(stack, arguments...);
    fallback(handle, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &stack);
    return torch::jit::pop(stack).toTensor();
  }
};

// Arguments in order are the row's operands; whatever the schema has beyond them must be at its default.
bool collect(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments, int arity,
             std::vector<Tensor>& keep, Operands& operands) {
  keep.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& v = arguments[i];
    if (schema.arguments()[i].is_out()) continue;
    if (static_cast<int>(operands.size()) == arity) {
      if (!(schema.arguments()[i].default_value() && *schema.arguments()[i].default_value() == v)) return false;
    } else if (v.isTensor()) {
      keep.push_back(v.toTensor());
      operands.push_back({&keep.back(), {}});
    } else if (v.isScalar()) {
      operands.push_back({nullptr, v.toScalar(), !schema.overload_name().starts_with("Scalar") || arity != 2});
    } else {
      return false;
    }
  }
  return static_cast<int>(operands.size()) == arity;
}

// Of any signature.
struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(const Recorder& r) : r(r) {}
  Recorder r;
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    const auto& schema = op.schema();
    auto arguments = torch::jit::last(*stack, schema.arguments().size());
    std::vector<Tensor> keep;
    Operands operands;
    if (!collect(schema, arguments, ir::info(r.op).body.arity, keep, operands)) return fallback(op, keys, stack);
    Tensor result;
    if (r.form == Form::Functional) {
      result = elementwise(r.op, operands);
    } else {
      Tensor out = (r.form == Form::InPlace ? arguments.front() : arguments.back()).toTensor();
      if (elementwise_into(out, r.op, operands, r.form == Form::Out)) result = out;
    }
    if (!result.defined()) return fallback(op, keys, stack);
    torch::jit::drop(*stack, schema.arguments().size());
    torch::jit::push(*stack, std::move(result));
  }
};

// Operators of one or two tensors and nothing else need no boxes.
torch::CppFunction unary_kernel(const Recorder& r) {
  switch (r.form) {
    case Form::Functional:
      return torch::CppFunction([r](const Tensor& a) -> Tensor {
        if (Tensor t = unary_fast(r.op, a); t.defined()) return t;
        return r.functional({{&a, {}}}, a);
      });
    case Form::InPlace:
      return torch::CppFunction([r](Tensor& a) -> Tensor& { return r.into(a, {{&a, {}}}, a); });
    default:
      return torch::CppFunction(
          [r](const Tensor& a, Tensor& out) -> Tensor& { return r.into(out, {{&a, {}}}, a, out); });
  }
}
torch::CppFunction binary_kernel(const Recorder& r) {
  switch (r.form) {
    case Form::Functional:
      return torch::CppFunction([r](const Tensor& a, const Tensor& b) -> Tensor {
        if (Tensor t = binary_fast(r.op, a, b); t.defined()) return t;
        return r.functional({{&a, {}}, {&b, {}}}, a, b);
      });
    case Form::InPlace:
      return torch::CppFunction([r](Tensor& a, const Tensor& b) -> Tensor& {
        if (binary_fast_in_place(r.op, a, b)) return a;
        return r.into(a, {{&a, {}}, {&b, {}}}, a, b);
      });
    default:
      return torch::CppFunction([r](const Tensor& a, const Tensor& b, Tensor& out) -> Tensor& {
        return r.into(out, {{&a, {}}, {&b, {}}}, a, b, out);
      });
  }
}

// One that takes a tensor and a number needs none either.
torch::CppFunction number_kernel(const Recorder& r) {
  const bool is_attribute = !r.handle.schema().overload_name().starts_with("Scalar");
  const auto operands = [is_attribute](const Tensor& a, const at::Scalar& b) {
    return Operands{{&a, {}}, {nullptr, b, is_attribute}};
  };
  switch (r.form) {
    case Form::Functional:
      return torch::CppFunction(
          [=](const Tensor& a, const at::Scalar& b) -> Tensor { return r.functional(operands(a, b), a, b); });
    case Form::InPlace:
      return torch::CppFunction(
          [=](Tensor& a, const at::Scalar& b) -> Tensor& { return r.into(a, operands(a, b), a, b); });
    default:
      return torch::CppFunction([=](const Tensor& a, const at::Scalar& b, Tensor& out) -> Tensor& {
        return r.into(out, operands(a, b), a, b, out);
      });
  }
}

bool is_of_tensor_and_number(const c10::FunctionSchema& schema) {
  const auto& arguments = schema.arguments();
  return arguments.size() >= 2 && arguments[0].type()->kind() == c10::TypeKind::TensorType &&
         arguments[1].type()->kind() == c10::TypeKind::NumberType &&
         (arguments.size() == 2 || (arguments.size() == 3 && arguments[2].is_out()));
}

bool is_of_tensors(const c10::FunctionSchema& schema, size_t count) {
  return schema.arguments().size() == count && std::ranges::all_of(schema.arguments(), [](const c10::Argument& a) {
           return a.type()->kind() == c10::TypeKind::TensorType;
         });
}

torch::CppFunction kernel(const Recorder& r) {
  const auto& schema = r.handle.schema();
  const auto arity = static_cast<size_t>(ir::info(r.op).body.arity);
  if (arity <= 2 && is_of_tensors(schema, arity + (r.form == Form::Out)))
    return arity == 1 ? unary_kernel(r) : binary_kernel(r);
  if (arity == 2 && is_of_tensor_and_number(schema) && schema.arguments().size() == 2u + (r.form == Form::Out))
    return number_kernel(r);
  return torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(r));
}

void implement(torch::Library& m, const std::string& name, const std::string& overload, ir::Op op, Form form) {
  auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
  if (!handle || handle->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return;
  if (form == Form::Out && (handle->schema().arguments().empty() || !handle->schema().arguments().back().is_out()))
    return;
  m.impl((name + (overload.empty() ? "" : "." + overload)).c_str(), kernel({op, form, *handle}));
}

// "add.Tensor" also names "add_.Tensor" and "add.out" or "add.Tensor_out", where torch has them.
void implement_forms(torch::Library& m, const std::string& aten, ir::Op op) {
  size_t dot = aten.find('.');
  std::string name = aten.substr(0, dot), overload = dot == aten.npos ? "" : aten.substr(dot + 1);
  implement(m, name, overload, op, Form::Functional);
  implement(m, name + "_", overload, op, Form::InPlace);
  for (const std::string& out : {overload + "_out", std::string("out"), std::string("grad_input")})
    if (out != "_out") implement(m, name, out, op, Form::Out);
}

}  // namespace

void register_table(torch::Library& m) {
  for (size_t i = 0; i < ir::kOpCount; ++i) {
    auto op = static_cast<ir::Op>(i);
    std::string_view names = ir::info(op).aten;
    // The condition of `where` keeps its own type: irregular_elementwise.cpp.
    if (!ir::is_elementwise(op) || op == ir::Op::where) continue;
    while (!names.empty()) {
      size_t space = std::min(names.find(' '), names.size());
      std::string name(names.substr(0, space));
      names.remove_prefix(std::min(space + 1, names.size()));
      if (!name.empty()) implement_forms(m, name, op);
    }
  }
}

}  // namespace lazuli::backend
