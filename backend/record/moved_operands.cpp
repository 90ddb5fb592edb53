#include "backend/record/moved_operands.h"

#include <algorithm>
#include <span>
#include <c10/core/GradMode.h>
#include "backend/record/operands.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

using torch::jit::Stack;

// A list of indices may be on the CPU as it is.
bool has_to_move(const at::Tensor& t) {
  return t.defined() && t.is_cpu() && t.layout() == c10::kStrided && !is_number(t);
}
bool is_list_of_indices(const c10::OperatorHandle& op, const c10::IValue& v) {
  return v.isList() && op.schema().name().find("index") != std::string::npos;
}

template <class Visit>
void for_each_tensor(const c10::IValue& v, const Visit& visit) {
  if (v.isTensor()) return visit(v.toTensor());
  if (!v.isTensorList() && !v.isOptionalTensorList()) return;
  for (const c10::IValue& element : v.toListRef())
    if (element.isTensor()) visit(element.toTensor());
}

bool are_mixed(const c10::OperatorHandle& op, at::ArrayRef<c10::IValue> arguments) {
  bool device = false, host = false;
  for (const c10::IValue& v : arguments) {
    const bool may_stay = is_list_of_indices(op, v);
    for_each_tensor(v, [&](const at::Tensor& t) {
      device |= t.defined() && t.is_privateuseone();
      host |= !may_stay && has_to_move(t);
    });
  }
  return device && host;
}

struct Written {
  at::Tensor host, moved;
};

// The operands on the device; what the operator writes is noted.
class Mover {
 public:
  c10::IValue moved(const c10::IValue& v, bool is_written) {
    if (v.isTensor()) return moved(v.toTensor(), is_written);
    if (v.isTensorList()) {
      c10::List<at::Tensor> list;
      for (const at::Tensor& t : v.toTensorVector()) list.push_back(moved(t, is_written));
      return list;
    }
    if (v.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> list;
      for (const std::optional<at::Tensor>& t : v.toOptionalTensorVector())
        list.push_back(t ? std::optional(moved(*t, is_written)) : std::nullopt);
      return list;
    }
    return v;
  }
  // Copies back what was written, and lets results that are operands be the caller's.
  void finish(at::ArrayRef<c10::IValue> results, Stack& out) const {
    for (const Written& w : written_) {
      if (w.host.sizes() != w.moved.sizes()) w.host.resize_(w.moved.sizes());
      w.host.copy_(w.moved);
    }
    for (const c10::IValue& v : results) {
      const auto same = [&](const Written& w) { return v.isTensor() && w.moved.is_same(v.toTensor()); };
      const auto found = std::ranges::find_if(written_, same);
      out.push_back(found == written_.end() ? v : c10::IValue(found->host));
    }
  }

 private:
  at::Tensor moved(const at::Tensor& t, bool is_written) {
    if (!has_to_move(t)) return t;
    at::Tensor moved = t.to(c10::Device(c10::kPrivateUse1));
    if (is_written) written_.push_back({t, moved});
    return moved;
  }
  std::vector<Written> written_;
};

}  // namespace

void move_what_requires_grad(const c10::OperatorHandle& op, Stack* stack) {
  if (!lazy::config().move_host_operands || !c10::GradMode::is_enabled()) return;
  const auto& arguments = op.schema().arguments();
  const auto given = std::span(*stack).last(arguments.size());
  if (!are_mixed(op, at::ArrayRef<c10::IValue>(given.data(), given.size()))) return;
  const auto moved = [](const at::Tensor& t) {
    return has_to_move(t) && t.requires_grad() ? t.to(c10::Device(c10::kPrivateUse1)) : t;
  };
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::AliasInfo* alias = arguments[i].alias_info();
    if (alias && alias->isWrite()) continue;
    if (given[i].isTensor()) given[i] = moved(given[i].toTensor());
    if (!given[i].isTensorList()) continue;
    c10::List<at::Tensor> list;
    for (const at::Tensor& t : given[i].toTensorVector()) list.push_back(moved(t));
    given[i] = list;
  }
}

bool call_with_moved_operands(const c10::OperatorHandle& op, Stack* stack) {
  if (!lazy::config().move_host_operands) return false;
  const auto& schema = op.schema();
  const size_t first = stack->size() - schema.arguments().size();
  const std::vector<c10::IValue> arguments(stack->begin() + static_cast<int64_t>(first), stack->end());
  if (!are_mixed(op, arguments)) return false;
  Mover mover;
  Stack call;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* alias = schema.arguments()[i].alias_info();
    call.push_back(mover.moved(arguments[i], alias && alias->isWrite()));
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), &call);
  stack->resize(first);
  mover.finish(call, *stack);
  return true;
}

}  // namespace lazuli::backend
