#include "backend/host/host_memory.h"

#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/native/SparseTensorUtils.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>
#include "lazy/external/external.h"
#include "lazy/external/workers.h"
#include "lazy/memory/backing.h"
#include "lazy/run/sync.h"
#include "lazy/support/dimension_names.h"
#include "lazy/trace/storage.h"
#include "lowering/threads/crew.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

bool is_of_device(const Tensor& t) { return t.defined() && t.is_privateuseone(); }
bool is_strided(const Tensor& t) {
  return t.layout() == c10::kStrided && !t.is_nested() && !t.is_quantized() && !lazy::has_names(t);
}
bool is_coo(const Tensor& t) { return t.layout() == c10::kSparse; }
bool is_compressed(const Tensor& t) { return at::sparse_csr::is_sparse_compressed(t); }

// The strided tensors that hold a tensor's numbers.
c10::SmallVector<Tensor, 3> components(const Tensor& t) {
  if (is_coo(t)) {
    const auto* s = at::sparse::get_sparse_impl(t);
    return {s->indices(), s->values()};
  }
  if (is_compressed(t)) {
    const auto* s = at::sparse_csr::get_sparse_csr_impl(t);
    return {s->compressed_indices(), s->plain_indices(), s->values()};
  }
  return {t};
}

// A tensor of the same layout, sizes and type of other components, on their device.
Tensor with_components(const Tensor& t, const c10::SmallVector<Tensor, 3>& parts) {
  const c10::TensorOptions options = t.options().device(parts[0].device());
  if (is_coo(t))
    return at::_sparse_coo_tensor_with_dims_and_tensors(t.sparse_dim(), t.dense_dim(), t.sizes(), parts[0], parts[1],
                                                        options, t.is_coalesced());
  if (is_compressed(t))
    return at::_sparse_compressed_tensor_unsafe(parts[0], parts[1], parts[2], t.sizes(), t.scalar_type(), t.layout(),
                                                parts[0].device(), false);
  return parts[0];
}

// `written`: the tensor that the call writes, if any; what shares memory with it does so on the host, too.
class HostMemory {
 public:
  explicit HostMemory(const Tensor& written) : written_(written) {
    if (written.defined()) buffer_ = lazy::materialize(written, lazy::SyncReason::HostCopy, true);
  }
  Tensor of(const Tensor& t) const {
    c10::SmallVector<Tensor, 3> parts = components(t);
    for (Tensor& part : parts)
      part = written_.defined() && part.is_alias_of(written_) ? lazy::host_view(part, buffer_)
                                                              : lazy::host_view(part, lazy::SyncReason::HostCopy);
    return with_components(t, parts);
  }

 private:
  const Tensor written_;
  jit::Buffer buffer_;
};

// What a kernel made, as a tensor of the device. Memory that somebody else holds, such as an operand, is copied. The
// components of a sparse tensor are often parts of something larger, which their strides show.
Tensor taken_over(Tensor made) {
  if (!made.defined() || !made.is_cpu()) return made;
  if (!is_strided(made) && !is_coo(made) && !is_compressed(made)) return made.to(lazy::device());
  const bool held = made.use_count() > 1;
  c10::SmallVector<Tensor, 3> parts = components(made);
  for (Tensor& part : parts) {
    if (held || part.storage().use_count() > 1)
      part = lazy::adopt(part.clone());
    else
      part = is_strided(made) ? lazy::adopt(part) : lazy::adopt_as_it_lies(part);
  }
  return with_components(made, parts);
}

// An operator that writes its first operand and gives it back, at its size.
bool is_in_place(const c10::FunctionSchema& schema) {
  const c10::Argument& first = schema.arguments()[0];
  return first.alias_info() && first.alias_info()->isWrite() && !first.kwarg_only();
}

// Whether each tensor of a call can be the host's as it lies.
bool needs_no_copy(const c10::FunctionSchema& schema, c10::ArrayRef<c10::IValue> given) {
  const bool in_place = is_in_place(schema);
  const Tensor written = in_place ? given[0].toTensor() : Tensor();
  if (in_place && !(is_of_device(written) && is_strided(written))) return false;
  for (size_t i = 0; i < given.size(); ++i) {
    const c10::IValue& v = given[i];
    if (v.isDevice() || v.isTensorList() || v.isOptionalTensorList()) return false;
    if (schema.arguments()[i].alias_info() && !(in_place && i == 0)) return false;
    if (!v.isTensor() || !is_of_device(v.toTensor())) continue;
    const Tensor& t = v.toTensor();
    if (!is_strided(t) && !is_coo(t) && !is_compressed(t)) return false;
  }
  return true;
}

}  // namespace

bool call_on_host_memory(const c10::OperatorHandle& op, torch::jit::Stack* stack, c10::DispatchKey host) {
  const c10::FunctionSchema& schema = op.schema();
  const size_t count = schema.arguments().size();
  if (!lazy::backing().shares_host_memory || count == 0) return false;
  if (!needs_no_copy(schema, torch::jit::last(*stack, count))) return false;
  const bool in_place = is_in_place(schema);
  const size_t first = stack->size() - count;
  const Tensor written = in_place ? (*stack)[first].toTensor() : Tensor();
  const HostMemory memory(written);
  size_t bytes = 0;
  c10::SmallVector<Tensor, 4> operands;  // kept: a result that lies in one of them is seen to be shared
  for (size_t i = 0; i < count; ++i) {
    c10::IValue& v = (*stack)[first + i];
    if (!v.isTensor() || !is_of_device(v.toTensor())) continue;
    operands.push_back(memory.of(v.toTensor()));
    for (const Tensor& part : components(operands.back())) bytes += part.nbytes();
    v = operands.back();
  }
  // Torch's kernels share even a few entries among the threads, which have gone to sleep meanwhile.
  constexpr size_t kLittle = 16 << 10;  // bytes
  std::optional<lowering::OneThread> alone;
  std::optional<lazy::Workers> workers;
  if (bytes <= kLittle)
    alone.emplace();
  else
    workers.emplace();
  op.redispatchBoxed(c10::DispatchKeySet(host), stack);
  for (size_t i = stack->size() - schema.returns().size(); i < stack->size(); ++i) {
    c10::IValue& v = (*stack)[i];
    if (v.isTensor()) {
      Tensor made = std::exchange(v, {}).toTensor();
      v = in_place && made.is_same(operands[0]) ? written : taken_over(std::move(made));
    } else if (v.isTensorList()) {
      c10::List<Tensor> list;
      for (Tensor& made : std::exchange(v, {}).toTensorVector()) list.push_back(taken_over(std::move(made)));
      v = std::move(list);
    }
  }
  return true;
}

}  // namespace lazuli::backend
