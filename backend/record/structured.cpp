// Torch writes most operators with `out=`, and has one kernel for every device that makes the results' memory first. A
// call would then be recorded as one that changes that memory: the memory would be made, its content copied aside and
// written over. So what has no kernel of ours is called as cpu calls it, in the form that returns its results.
#include <unordered_set>
#include "backend/record/dispatch.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using c10::DispatchKey;

bool returns_new_results(const c10::FunctionSchema& schema) {
  const auto is_alias = [](const c10::Argument& a) { return a.alias_info() != nullptr; };
  return std::ranges::none_of(schema.arguments(), is_alias) && std::ranges::none_of(schema.returns(), is_alias);
}

}  // namespace

// Where one form of an operator is ours, the others are written in it.
void register_structured(torch::Library& m) {
  auto& dispatcher = c10::Dispatcher::singleton();
  std::vector<c10::OperatorHandle> structured;
  std::unordered_set<std::string> ours;
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (!name.name.starts_with("aten::")) continue;
    const auto op = dispatcher.findSchema(name);
    if (!op) continue;
    if (op->hasKernelForDispatchKey(DispatchKey::PrivateUse1))
      ours.insert(name.name);
    else if (op->hasKernelForDispatchKey(DispatchKey::CompositeExplicitAutogradNonFunctional) &&
             op->hasKernelForDispatchKey(DispatchKey::CPU) && returns_new_results(op->schema()))
      structured.push_back(*op);
  }
  for (const c10::OperatorHandle& op : structured)
    if (!ours.contains(op.schema().name()))
      m.impl(toString(op.operator_name()).substr(6).c_str(), torch::CppFunction::makeFromBoxedFunction<&fallback>());
}

}  // namespace lazuli::backend
