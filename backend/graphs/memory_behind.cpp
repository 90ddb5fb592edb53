#include "backend/graphs/memory_behind.h"

#include <algorithm>
#include <unordered_map>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/as_strided.h>
#include "lazy/external/external.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/run/sync.h"

namespace lazuli::backend {
namespace {

constexpr auto kReason = lazy::SyncReason::HostCopy;

// All of the memory that the results of a graph share.
c10::Storage memory_of(const at::Tensor& result) {
  const jit::Buffer buffer = lazy::materialize(result, kReason, /*writable=*/true);
  const auto bytes = static_cast<int64_t>(result.storage().nbytes());
  return lazy::tensor_over(buffer.data, {bytes}, {1}, c10::ScalarType::Byte, buffer.owner).storage();
}

// What the result is of that memory.
at::Tensor over(const c10::Storage& memory, const at::Tensor& result) {
  at::Tensor t =
      lazy::tensor_in(memory, result.sizes(), result.strides(), result.storage_offset(), result.scalar_type());
  lazy::set_view_bits(t, lazy::geometry_of(result));
  return t;
}

}  // namespace

bool MemoryBehind::can_take_over(const at::Tensor& t) {
  return t.layout() == c10::kStrided && t.has_storage() && !t.is_conj() && !t.is_neg() && !t.is_quantized() &&
         !t.key_set().has(c10::DispatchKey::Python) && t.device() == lazy::backing().device() &&
         ir::is_native(lazy::to_ir(t.scalar_type()));
}

std::optional<MemoryBehind> MemoryBehind::take_over(const Tensors& originals) {
  c10::InferenceMode guard(false);  // versions tell what was written to
  MemoryBehind memory;
  memory.originals_ = originals;
  for (const at::Tensor& original : originals) {
    if (original.is_privateuseone()) {
      memory.tensors_.push_back(original);
      continue;
    }
    const at::Tensor t = original.resolve_neg();
    if (!can_take_over(t)) return {};
    const std::shared_ptr<void> owner(t.data_ptr(), [t](void*) {});
    memory.tensors_.push_back(
        lazy::adopt(lazy::tensor_over(t.data_ptr(), t.sizes(), t.strides(), t.scalar_type(), owner)));
    memory.cells_.push_back(lazy::storage_of(memory.tensors_.back()).cell_ref());
  }
  return memory;
}

// Tells the trace of what is kept, and which values are read now.
void MemoryBehind::note_kept(const Tensors& results, size_t kept) {
  if (kept >= results.size()) return;
  std::lock_guard lock(lazy::recorder().mutex);
  if (lazy::recorder().trace.empty()) return;
  lazy::recorder().trace.is_kept_from = true;
  for (size_t i = 0; i < kept; ++i) lazy::storage_of(results[i]).cell()->is_read_outside = true;
}

CapturedGraph::Tensors MemoryBehind::give_back(const Tensors& results, size_t kept) const {
  at::NoGradGuard no_grad;
  note_kept(results, kept);
  lazy::sync(kReason);
  std::unordered_map<const lazy::LazyStorage*, at::Tensor> firsts;  // of the results over a storage
  Tensors out;
  for (const at::Tensor& t : results) {
    if (const auto taken = find_memory(tensors_, t); taken != tensors_.end()) {
      const auto i = static_cast<size_t>(taken - tensors_.begin());
      // What forward kept is not the caller's.
      const bool is_copied = originals_[i].is_privateuseone() && out.size() < kept;
      out.push_back(is_copied ? lazy::host_view(t, kReason).clone() : given(t, i));
      continue;
    }
    // What forward keeps for backward alone is read by nobody else.
    const auto shows_it = [&](const at::Tensor& r) { return r.is_alias_of(t); };
    if (out.size() >= kept && std::none_of(results.begin(), results.begin() + kept, shows_it)) {
      lazy::own_memory(t);
      out.push_back(t);
      continue;
    }
    at::Tensor& first = firsts[&lazy::storage_of(t)];
    if (!first.defined()) {
      out.push_back(first = over(memory_of(t), t));
      continue;
    }
    // What a graph returns and saves for its backward, too, is one tensor.
    const auto same = std::ranges::find_if(results, [&](const at::Tensor& earlier) { return earlier.is_same(t); });
    if (const auto at = static_cast<size_t>(same - results.begin()); at < out.size()) {
      out.push_back(out[at]);
      continue;
    }
    out.push_back(over(first.storage(), t));
    if (!first.is_inference())
      out.back().unsafeGetTensorImpl()->set_version_counter(first.unsafeGetTensorImpl()->version_counter());
  }
  write_back();
  return out;
}

// When all results have memory of their own.
void MemoryBehind::write_back() const {
  std::unordered_map<c10::ScalarType, std::pair<Tensors, Tensors>> written;  // by type: a GPU copies many at once
  for (size_t i = 0; i < tensors_.size(); ++i) {
    if (originals_[i].is_privateuseone() || tensors_[i]._version() == 0) continue;
    auto& [to, from] = written[tensors_[i].scalar_type()];
    to.push_back(originals_[i]);
    from.push_back(lazy::host_view(tensors_[i], kReason));
    // It may be what another one was before it was written to.
    if (std::ranges::find(cells_, lazy::storage_of(tensors_[i]).cell(), &lazy::CellRef::get) != cells_.end())
      from.back() = from.back().clone();
  }
  for (auto& [type, copies] : written) at::_foreach_copy_(copies.first, copies.second);
}

at::Tensor MemoryBehind::given(const at::Tensor& result, size_t taken) const {
  const at::Tensor &original = originals_[taken], &stand_in = tensors_[taken];
  if (result.is_same(stand_in)) return original;
  if (original.strides() == stand_in.strides() && original.scalar_type() == result.scalar_type())
    return original.detach().as_strided(result.sizes(), result.strides(),
                                        original.storage_offset() + result.storage_offset());
  return lazy::host_view(result, kReason).clone();
}

}  // namespace lazuli::backend
