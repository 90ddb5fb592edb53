// What the Python half calls: torch.ops.lazuli._graph_*. Graphs and captures go by number there.
#include <algorithm>
#include <unordered_map>
#include <ATen/ops/as_strided.h>
#include <torch/library.h>
#include "backend/graphs/captured_graph.h"
#include "lazy/external/external.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/run/sync.h"
#include "lazy/support/mutex.h"
#include "lazy/support/source.h"

namespace lazuli::backend {
namespace {

template <class T>
class Numbered {
 public:
  int64_t add(std::unique_ptr<T> t) {
    std::lock_guard lock(mutex_);
    all_.emplace(next_, std::move(t));
    return next_++;
  }
  T& at(int64_t number) {
    std::lock_guard lock(mutex_);
    const auto found = all_.find(number);
    TORCH_CHECK_VALUE(found != all_.end(), "lazuli: there is no graph ", number);
    return *found->second;
  }
  // Null: there is none.
  std::unique_ptr<T> take(int64_t number) {
    std::lock_guard lock(mutex_);
    auto node = all_.extract(number);
    return node ? std::move(node.mapped()) : nullptr;
  }

 private:
  lazy::Mutex mutex_{lazy::Rank::Leaf};
  std::unordered_map<int64_t, std::unique_ptr<T>> all_;
  int64_t next_ = 0;
};

Numbered<CapturedGraph>& graphs() {
  static auto* g = new Numbered<CapturedGraph>;
  return *g;
}
Numbered<CapturedGraph::Capture>& captures() {
  static auto* c = new Numbered<CapturedGraph::Capture>;
  return *c;
}

using Tensors = CapturedGraph::Tensors;

std::tuple<int64_t, Tensors> call(int64_t graph, const Tensors& inputs, at::IntArrayRef sizes) {
  CapturedGraph& g = graphs().at(graph);
  CapturedGraph::Call c = g.call(inputs, sizes);
  if (c.number >= 0 && g.is_whole()) lazy::cut_after_whole();
  return {c.number, std::move(c.results)};
}

std::tuple<int64_t, Tensors> begin(Tensors inputs, at::IntArrayRef sizes) {
  auto c = CapturedGraph::begin(std::move(inputs), sizes);
  if (!c) return {-1, Tensors()};
  Tensors stand_ins = c->stand_ins;
  return {captures().add(std::make_unique<CapturedGraph::Capture>(*std::move(c))), std::move(stand_ins)};
}

std::tuple<int64_t, Tensors, std::string> end(int64_t graph, int64_t capture, const Tensors& results) {
  const auto taken = captures().take(capture);
  TORCH_CHECK_VALUE(taken, "lazuli: there is no capture ", capture);
  CapturedGraph::Call c = graphs().at(graph).end(*taken, results);
  return {c.number, std::move(c.results), std::move(c.why)};
}

// Whether a tensor of the device can stand for it. The memory's numbers have to be the tensor's.
bool can_take_over(const at::Tensor& t) {
  return t.layout() == c10::kStrided && t.has_storage() && !t.is_conj() && !t.is_neg() && !t.is_quantized() &&
         !t.key_set().has(c10::DispatchKey::Python) && t.device() == lazy::backing().device() &&
         ir::is_native(lazy::to_ir(t.scalar_type()));
}

// Tensors of the device over the memory of tensors of the device behind it; and as many that hold the same. As long as
// somebody keeps the latter, no result takes over that memory, also where the former are written to. None of either:
// not all can be taken over.
std::tuple<Tensors, Tensors> take_over(const Tensors& originals) {
  if (!std::ranges::all_of(originals, can_take_over)) return {};
  c10::InferenceMode guard(false);  // versions tell what was written to
  Tensors taken, kept;
  for (const at::Tensor& t : originals) {
    const std::shared_ptr<void> owner(t.data_ptr(), [t](void*) {});
    taken.push_back(lazy::adopt(lazy::tensor_over(t.data_ptr(), t.sizes(), t.strides(), t.scalar_type(), owner)));
    kept.push_back(lazy::make_tensor(lazy::storage_of(taken.back()).cell_ref(), t.scalar_type()));
  }
  return {std::move(taken), std::move(kept)};
}

// Of what has been computed: tensors over the memory of the results, where these are not over memory that was taken
// over. What was written to that is copied there.
Tensors give_back(const Tensors& originals, const Tensors& taken, const Tensors& results) {
  at::NoGradGuard no_grad;
  lazy::sync(lazy::SyncReason::HostCopy);
  Tensors out;
  for (size_t i = 0; i < taken.size(); ++i) {
    if (taken[i]._version() == 0) continue;
    originals[i].copy_(lazy::host_view(taken[i], lazy::SyncReason::HostCopy));
  }
  std::unordered_map<const lazy::LazyStorage*, at::Tensor> memory;
  for (const at::Tensor& t : results) {
    const auto same = find_memory(taken, t);
    if (same != taken.end()) {
      const at::Tensor& original = originals[same - taken.begin()];
      if (t.is_same(*same)) {
        out.push_back(original);
        continue;
      }
      if (original.strides() == same->strides() && original.scalar_type() == t.scalar_type()) {
        const int64_t offset = original.storage_offset() + t.storage_offset();
        out.push_back(original.detach().as_strided(t.sizes(), t.strides(), offset));
        continue;
      }
      out.push_back(lazy::host_view(t, lazy::SyncReason::HostCopy).clone());
      continue;
    }
    at::Tensor& whole = memory[&lazy::storage_of(t)];
    if (!whole.defined()) {
      const auto n = static_cast<int64_t>(t.storage().nbytes());
      whole =
          lazy::tensor_over(lazy::materialize(t, lazy::SyncReason::HostCopy, /*writable=*/true), {ir::DType::U8, {n}});
    }
    at::Tensor view = whole.view(t.scalar_type()).as_strided(t.sizes(), t.strides(), t.storage_offset());
    lazy::set_view_bits(view, lazy::geometry_of(t));
    out.push_back(view);
  }
  return out;
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  graphs(), captures();  // before another thread may fork (lazy/support/mutex.h)
  m.def("_graph_new(bool is_whole) -> int",
        [](bool is_whole) { return graphs().add(std::make_unique<CapturedGraph>(is_whole)); });
  m.def("_graph_free(int graph) -> ()", [](int64_t graph) { graphs().take(graph); });
  const auto key = c10::DispatchKey::CompositeImplicitAutograd;
  m.def("_graph_call(int graph, Tensor[] inputs, int[] sizes) -> (int, Tensor[])", torch::dispatch(key, call));
  m.def("_graph_begin(Tensor[] inputs, int[] sizes) -> (int, Tensor[])", torch::dispatch(key, begin));
  m.def("_graph_end(int graph, int capture, Tensor[] results) -> (int, Tensor[], str)", torch::dispatch(key, end));
  m.def("_graph_take_over(Tensor[] originals) -> (Tensor[], Tensor[])", torch::dispatch(key, take_over));
  m.def("_graph_give_back(Tensor[] originals, Tensor[] taken, Tensor[] results) -> Tensor[]",
        torch::dispatch(key, give_back));
  m.def("_graph_drop(int capture) -> ()", [](int64_t capture) {
    std::lock_guard lock(lazy::recorder().mutex);
    lazy::recorder().alone = {};
    captures().take(capture);
  });
  // What ops are recorded as the code of, by this thread; empty: the Python line that is executing.
  m.def("_set_line(str line) -> ()", [](const std::string& line) { lazy::set_line(line); });
}

}  // namespace lazuli::backend
