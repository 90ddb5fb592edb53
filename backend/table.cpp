// Registration of the elementwise rows from the op table: each ATen operator that a row names, with its in-place and out
// forms, records that row. The hot binary operators have unboxed kernels in front (arithmetic.cpp).
#include <unordered_map>
#include "backend/registration.h"
#include "backend/dispatch.h"
#include "backend/elementwise.h"

namespace lazuli::backend {
namespace {

struct Registered {
  ir::Op op;
  int arity;
  enum Form : uint8_t { Functional, InPlace, Out } form;
};

// By operator name; filled before the first call and never changed afterwards.
std::unordered_map<c10::OperatorName, Registered>& registered() {
  static auto* m = new std::unordered_map<c10::OperatorName, Registered>;
  return *m;
}

// Arguments in order are the row's operands; whatever the schema has beyond them must be at its default.
bool collect(const c10::FunctionSchema& schema, at::ArrayRef<c10::IValue> arguments, const Registered& r,
             std::vector<at::Tensor>& keep, Operands& operands) {
  keep.reserve(arguments.size());
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::IValue& v = arguments[i];
    if (schema.arguments()[i].is_out()) continue;
    if (static_cast<int>(operands.size()) == r.arity) {
      if (!(schema.arguments()[i].default_value() && *schema.arguments()[i].default_value() == v)) return false;
    } else if (v.isTensor()) {
      keep.push_back(v.toTensor());
      operands.push_back({&keep.back(), {}});
    } else if (v.isScalar()) {
      operands.push_back({nullptr, v.toScalar()});
    } else {
      return false;
    }
  }
  return static_cast<int>(operands.size()) == r.arity;
}

void boxed(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const Registered& r = registered().at(op.operator_name());
  const auto& schema = op.schema();
  auto arguments = torch::jit::last(*stack, schema.arguments().size());
  std::vector<at::Tensor> keep;
  Operands operands;
  if (!collect(schema, arguments, r, keep, operands)) return fallback(op, keys, stack);
  at::Tensor result;
  if (r.form == Registered::Functional) {
    result = elementwise(r.op, operands);
  } else {
    at::Tensor out = (r.form == Registered::InPlace ? arguments.front() : arguments.back()).toTensor();
    if (elementwise_into(out, r.op, operands, r.form == Registered::Out)) result = out;
  }
  if (!result.defined()) return fallback(op, keys, stack);
  torch::jit::drop(*stack, schema.arguments().size());
  torch::jit::push(*stack, std::move(result));
}

void implement(torch::Library& m, const std::string& name, const std::string& overload, ir::Op op, Registered::Form form) {
  auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + name, overload});
  if (!handle || handle->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1)) return;
  if (form == Registered::Out && (handle->schema().arguments().empty() || !handle->schema().arguments().back().is_out())) return;
  auto [it, fresh] = registered().try_emplace(handle->operator_name(), Registered{op, ir::info(op).body.arity, form});
  if (!fresh) return;
  m.impl((name + (overload.empty() ? "" : "." + overload)).c_str(), torch::CppFunction::makeFromBoxedFunction<&boxed>());
}

// "add.Tensor" also names "add_.Tensor" and "add.out" or "add.Tensor_out", where torch has them.
void implement_forms(torch::Library& m, const std::string& aten, ir::Op op) {
  size_t dot = aten.find('.');
  std::string name = aten.substr(0, dot), overload = dot == aten.npos ? "" : aten.substr(dot + 1);
  implement(m, name, overload, op, Registered::Functional);
  implement(m, name + "_", overload, op, Registered::InPlace);
  for (const std::string& out : {overload + "_out", std::string("out"), std::string("grad_input")})
    if (out != "_out") implement(m, name, out, op, Registered::Out);
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
