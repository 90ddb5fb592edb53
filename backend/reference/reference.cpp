// Reference mode (lazy/support/config.h): which operators go to torch's own kernels. That is asked of the dispatcher,
// not of a list: whatever torch computes below autograd on the backing device, by a kernel of the device or by one for
// every device, is recorded as an external call, so that it runs as a whole on that device's tensors and finds all that
// eager finds there. Above autograd torch decomposes for us as it does for the backing device, but for what
// reference_composites.cpp has.
#include <ATen/core/Tensor.h>
#include "backend/record/dispatch.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using c10::DispatchKey;
using c10::OperatorHandle;

bool is_tensor(const c10::Argument& a) {
  return a.type()->isSubtypeOf(*c10::OptionalType::ofTensor()) || a.type()->isSubtypeOf(*c10::ListType::ofTensors()) ||
         a.type()->isSubtypeOf(*c10::ListType::ofOptionalTensors());
}
bool is_device(const c10::Argument& a) {
  return a.type()->isSubtypeOf(*c10::DeviceObjType::get()) ||
         a.type()->isSubtypeOf(*c10::OptionalType::create(c10::DeviceObjType::get()));
}
bool is_written(const c10::Argument& a) { return a.alias_info() && a.alias_info()->isWrite(); }
bool is_view(const c10::Argument& a) { return a.alias_info() && !a.alias_info()->isWrite(); }

bool has_kernel_for_every_device(const OperatorHandle& op) {
  return op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd) ||
         op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional);
}

// A tensor made of numbers alone. What has no content, or zeros, is made of operators that keep memory.
bool makes_content(const std::string& name) {
  for (const char* prefix :
       {"aten::empty", "aten::_empty", "aten::zeros", "aten::sparse", "aten::_sparse", "aten::from_file"})
    if (name.starts_with(prefix)) return false;
  return true;
}

// Whether an operator that torch has one kernel of for every device computes, or only says where memory is: views,
// metadata, conversions between devices, which are written in operators that are ours.
bool computes(const OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const std::string& name = schema.name();
  if (op.hasTag(at::Tag::inplace_view) || std::ranges::any_of(schema.returns(), is_view)) return false;
  // Copies of all memory behind a view, of which a part is then written.
  if (name.ends_with("_scatter") && op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional))
    return false;
  if (name == "aten::_new_zeros_with_same_feature_meta") return false;  // of as much memory
  if (name == "aten::as_strided_copy") return false;                    // from anywhere in memory
  if (name == "aten::clone" || name == "aten::lift" || name == "aten::resize_as_" || name == "aten::_resize_output_")
    return false;
  const auto& arguments = schema.arguments();
  if (std::ranges::any_of(arguments, is_device))
    return std::ranges::none_of(arguments, is_tensor) && makes_content(name);
  return std::ranges::any_of(schema.returns(), is_tensor) || std::ranges::any_of(arguments, is_written);
}

bool is_beside_ours(const at::Tensor& t) { return t.defined() && t.is_cpu() && t.dim() > 0; }

// Lengths and batch sizes lie on the host whatever the device is. Torch's kernel for every device knows that, and calls
// others.
bool takes_from_host(at::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& v : arguments) {
    if (v.isTensor() && is_beside_ours(v.toTensor())) return true;
    if (v.isTensorList())
      for (const at::Tensor& t : v.toTensorVector())
        if (is_beside_ours(t)) return true;
  }
  return false;
}

void on_every_device(const OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (!takes_from_host(torch::jit::last(*stack, op.schema().arguments().size()))) return fallback(op, keys, stack);
  const auto key = op.hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutograd)
                       ? DispatchKey::CompositeExplicitAutograd
                       : DispatchKey::CompositeExplicitAutogradNonFunctional;
  op.callBoxedForDispatchKey(key, *stack);
}

bool writes_each(const OperatorHandle& op) {
  return op.schema().name().starts_with("aten::_foreach_") && op.schema().name().ends_with("_");
}

// On the host, torch's loop over a list counts a write of each tensor, which nobody sees within an external call.
void on_each(const OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const std::vector<at::Tensor> written = torch::jit::last(*stack, op.schema().arguments().size())[0].toTensorVector();
  fallback(op, keys, stack);
  if (lazy::backing().has_host_kernels)
    for (const at::Tensor& t : written) t.unsafeGetTensorImpl()->bump_version();
}

}  // namespace

void register_reference(torch::Library& m) {
  auto& dispatcher = c10::Dispatcher::singleton();
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = dispatcher.findSchema(name);
    if (!op || !name.name.starts_with("aten::") || op->hasKernelForDispatchKey(DispatchKey::PrivateUse1)) continue;
    const std::string own = toString(name).substr(6);
    if (writes_each(*op))
      m.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_each>());
    else if (op->hasKernelForDispatchKey(DispatchKey::CPU))
      m.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
    else if (has_kernel_for_every_device(*op) && computes(*op))
      m.impl(own.c_str(), torch::CppFunction::makeFromBoxedFunction<&on_every_device>());
  }
}

}  // namespace lazuli::backend
