// Torch's collectives (torch.distributed) on tensors of the device: they run on the memory that holds the values, by
// whatever the process group has for the backing device, such as gloo or NCCL.
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/reducer_timer.hpp>
#include <torch/library.h>
#include "backend/torch_internals/replaced_kernels.h"
#include "lazy/memory/backing.h"
#include "lazy/record/recording.h"
#include "lazy/run/sync.h"
#include "lazy/support/plain_dispatch.h"

namespace lazuli::backend {
namespace {

using at::Tensor;
using c10::IValue;
using c10d::ProcessGroup;
using c10d::Work;

// The value with each tensor in it, or in lists in it, replaced.
template <class F>
IValue map_tensors(const IValue& v, const F& f) {
  if (v.isTensor()) return f(v.toTensor());
  if (!v.isList()) return v;
  const c10::List<IValue> list = v.toList();
  c10::impl::GenericList out(list.elementType());
  for (size_t i = 0; i < list.size(); ++i) out.push_back(map_tensors(list.get(i), f));
  return out;
}

// Collectives that may still be writing, by their memory.
class InFlight {
 public:
  static InFlight& get() {
    static auto* all = new InFlight;
    return *all;
  }
  void add(const c10::intrusive_ptr<Work>& work, const void* memory) {
    std::lock_guard lock(mutex_);
    std::erase_if(works_, [](const Entry& e) {
      auto w = e.work.lock();
      return !w || w->isCompleted();
    });
    works_.push_back({memory, c10::weak_intrusive_ptr<Work>(work)});
  }
  void wait(const void* memory) {
    std::vector<c10::intrusive_ptr<Work>> found;
    {
      std::lock_guard lock(mutex_);
      for (const Entry& e : works_)
        if (auto w = e.memory == memory ? e.work.lock() : nullptr) found.push_back(std::move(w));
    }
    for (const auto& w : found) w->wait();
  }

 private:
  struct Entry {
    const void* memory;
    c10::weak_intrusive_ptr<Work> work;
  };
  std::mutex mutex_;
  std::vector<Entry> works_;
};

// The tensors of one call, and those over the same memory that the collective works on.
class Shared {
 public:
  void add(const Tensor& t, bool written) {
    if (!t.defined() || !t.is_privateuseone()) return;
    Memory& m = memory_[&lazy::storage_of(t)];
    m.tensor = t;
    m.written |= written;
  }
  // Tensors on one storage get the same memory.
  void materialize() {
    for (auto& [storage, m] : memory_) {
      m.buffer = lazy::materialize(m.tensor, lazy::SyncReason::Collective);
      if (!m.written) continue;
      // Its own memory from now on, unless a copy is not to be written too; which would miss what is still to come.
      InFlight::get().wait(std::exchange(m.buffer, {}).data);
      m.buffer = lazy::materialize(m.tensor, lazy::SyncReason::Collective, /*writable=*/true);
    }
  }
  Tensor below(const Tensor& t) {
    if (!t.defined() || !t.is_privateuseone()) return t;
    Tensor view = lazy::host_view(t, memory_.at(&lazy::storage_of(t)).buffer);
    above_.try_emplace(view.unsafeGetTensorImpl(), t);
    views_.push_back(view);
    return view;
  }
  Tensor above(const Tensor& view) const {
    auto it = above_.find(view.unsafeGetTensorImpl());
    return it == above_.end() ? view : it->second;
  }
  void work_on(const c10::intrusive_ptr<Work>& work) const {
    for (auto& [storage, m] : memory_)
      if (m.written) InFlight::get().add(work, m.buffer.data);
  }

 private:
  struct Memory {
    Tensor tensor;
    bool written = false;
    jit::Buffer buffer;
  };
  std::unordered_map<const lazy::LazyStorage*, Memory> memory_;
  std::unordered_map<const c10::TensorImpl*, Tensor> above_;
  std::vector<Tensor> views_;
};

// The collective's own work, which answers with the caller's tensors.
class SharedWork final : public Work {
 public:
  SharedWork(c10::intrusive_ptr<Work> own, Shared shared)
      : Work(-1, own->retrieveOpType()), own_(std::move(own)), shared_(std::make_shared<Shared>(std::move(shared))) {
    if (lazy::backing().overlaps_host) stream_ = lazy::backing().current_stream();
  }

  bool isCompleted() override { return own_->isCompleted(); }
  bool isSuccess() const override { return own_->isSuccess(); }
  std::exception_ptr exception() const override { return own_->exception(); }
  int sourceRank() const override { return own_->sourceRank(); }
  void synchronize() override { own_->synchronize(); }
  bool wait(std::chrono::milliseconds timeout) override { return own_->wait(timeout); }
  void blockCurrentStream() override { own_->blockCurrentStream(); }
  void abort() override { own_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFutureResult() override { return own_->getFutureResult(); }
  float getDuration() const override { return own_->getDuration(); }
  uint64_t getSequencenumber() const override { return own_->getSequencenumber(); }
  std::vector<Tensor> result() override {
    std::vector<Tensor> out;
    for (const Tensor& t : own_->result()) out.push_back(shared_->above(t));
    return out;
  }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    auto own = own_->getFuture();
    std::lock_guard lock(mutex_);
    if (future_) return future_;
    future_ = c10::make_intrusive<c10::ivalue::Future>(own->elementType());
    own->addCallback([future = future_, shared = shared_, stream = stream_](c10::ivalue::Future& done) {
      if (done.hasError()) return future->setError(done.exception_ptr());
      // What reads the result is recorded for the caller's stream, and this is one that waits for the collective.
      if (stream) lazy::backing().order(lazy::backing().current_stream(), *stream);
      future->markCompleted(map_tensors(done.value(), [&](const Tensor& t) { return shared->above(t); }));
    });
    return future_;
  }

 private:
  const c10::intrusive_ptr<Work> own_;
  const std::shared_ptr<const Shared> shared_;
  std::optional<c10::Stream> stream_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// What serves the device in a group serves the backing device too.
void lend_backend(ProcessGroup& group) {
  const auto types = group.getDeviceTypes();
  const c10::DeviceType backing = lazy::backing().device().type();
  auto has = [&](c10::DeviceType type) {
    return std::ranges::any_of(types, [&](c10::Device d) { return d.type() == type; });
  };
  if (!has(backing) && has(c10::kPrivateUse1)) {
    auto backend = group.getBackend(c10::kPrivateUse1);
    group.setBackend(backing, ProcessGroup::strToBackendType(backend->getBackendName()), backend);
  }
}

void collective(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  const size_t first = stack->size() - arguments.size();
  Shared shared;
  for (size_t i = 0; i < arguments.size(); ++i) {
    IValue& v = (*stack)[first + i];
    // Torch's schemas do not say what is written, but name it.
    const bool written = op.schema().name() != "c10d::send" && !arguments[i].name().starts_with("input");
    map_tensors(v, [&](const Tensor& t) { return shared.add(t, written), t; });
    if (v.isCustomClass() && arguments[i].name() == "process_group") lend_backend(*v.toCustomClass<ProcessGroup>());
  }
  shared.materialize();
  for (size_t i = first; i < stack->size(); ++i)
    (*stack)[i] = map_tensors((*stack)[i], [&](const Tensor& t) { return shared.below(t); });
  {
    lazy::PlainDispatch guard;
    op.redispatchBoxed(c10::DispatchKeySet(lazy::backing().dispatch_key()), stack);
  }
  const auto& returns = op.schema().returns();
  for (size_t i = 0; i < returns.size(); ++i) {
    IValue& v = (*stack)[stack->size() - returns.size() + i];
    v = map_tensors(v, [&](const Tensor& t) { return shared.above(t); });
  }
  IValue& last = stack->back();  // every collective returns its work, behind its results
  if (auto own = last.toCustomClass<Work>()) {
    shared.work_on(own);
    last = IValue(c10::intrusive_ptr<Work>(c10::make_intrusive<SharedWork>(std::move(own), std::move(shared))));
  }
}

// Torch has kernels of its own at the device's key, for backends of the device's.
TORCH_LIBRARY_IMPL(c10d, PrivateUse1, m) {
  const ReplacingKernels replacing;
  for (const char* name :
       {"send", "recv_", "recv_any_source_", "reduce_", "broadcast_", "allreduce_", "allreduce_coalesced_",
        "allgather_", "_allgather_base_", "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_scatter_",
        "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_", "gather_", "scatter_", "alltoall_",
        "alltoall_base_", "barrier"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&collective>());
}

// DistributedDataParallel's statistics: when the host recorded what.
struct Timer final : c10d::Timer {
  explicit Timer(c10::Device) {}
  std::optional<int64_t> measureDifference(Event start, Event end) override {
    const int64_t from = getTimeRef(start), to = getTimeRef(end);
    return to < from ? std::nullopt : std::optional(to - from);
  }
};

}  // namespace
}  // namespace lazuli::backend

namespace c10d {
C10_REGISTER_TYPED_CLASS(TimerRegistry, c10::kPrivateUse1, lazuli::backend::Timer)
}
