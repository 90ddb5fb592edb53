// What the Python half calls: torch.ops.lazuli._graph_*. Graphs and captures go by number there.
#include <algorithm>
#include <unordered_map>
#include <torch/library.h>
#include "backend/device/generator.h"
#include "backend/graphs/captured_graph.h"
#include "backend/graphs/memory_behind.h"
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
Numbered<MemoryBehind>& memories() {
  static auto* m = new Numbered<MemoryBehind>;
  return *m;
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

std::tuple<int64_t, Tensors> call_behind(int64_t graph, const Tensors& originals, at::IntArrayRef sizes, int64_t kept) {
  std::optional<MemoryBehind> memory = MemoryBehind::take_over(originals);
  if (!memory) return {-1, Tensors()};
  auto [number, results] = call(graph, memory->tensors(), sizes);
  if (number >= 0) results = memory->give_back(results, static_cast<size_t>(kept));
  return {number, std::move(results)};
}

std::tuple<int64_t, Tensors> take_over(const Tensors& originals) {
  auto memory = MemoryBehind::take_over(originals);
  if (!memory) return {-1, Tensors()};
  Tensors tensors = memory->tensors();
  return {memories().add(std::make_unique<MemoryBehind>(*std::move(memory))), std::move(tensors)};
}

Tensors give_back(int64_t memory, const Tensors& results, int64_t kept) {
  const auto taken = memories().take(memory);
  TORCH_CHECK_VALUE(taken, "lazuli: there is no memory ", memory);
  return taken->give_back(results, static_cast<size_t>(kept));
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(lazuli, m) {
  graphs(), captures(), memories();  // before another thread may fork (lazy/support/mutex.h)
  m.def("_graph_new(bool is_whole) -> int",
        [](bool is_whole) { return graphs().add(std::make_unique<CapturedGraph>(is_whole)); });
  m.def("_graph_free(int graph) -> ()", [](int64_t graph) { graphs().take(graph); });
  const auto key = c10::DispatchKey::CompositeImplicitAutograd;
  m.def("_graph_call(int graph, Tensor[] inputs, int[] sizes) -> (int, Tensor[])", torch::dispatch(key, call));
  m.def("_graph_begin(Tensor[] inputs, int[] sizes) -> (int, Tensor[])", torch::dispatch(key, begin));
  m.def("_graph_end(int graph, int capture, Tensor[] results) -> (int, Tensor[], str)", torch::dispatch(key, end));
  m.def("_graph_call_behind(int graph, Tensor[] originals, int[] sizes, int kept) -> (int, Tensor[])",
        torch::dispatch(key, call_behind));
  m.def("_graph_can_take_over(Tensor[] originals) -> bool", torch::dispatch(key, [](const Tensors& originals) {
          return std::ranges::all_of(originals, MemoryBehind::can_take_over);
        }));
  m.def("_graph_take_over(Tensor[] originals) -> (int, Tensor[])", torch::dispatch(key, take_over));
  m.def("_graph_give_back(int memory, Tensor[] results, int kept) -> Tensor[]", torch::dispatch(key, give_back));
  m.def("_graph_let_go(int memory) -> ()", [](int64_t memory) { memories().take(memory); });
  m.def("_graph_drop(int capture) -> ()", [](int64_t capture) {
    std::lock_guard lock(lazy::recorder().mutex);
    lazy::recorder().alone = {};
    captures().take(capture);
  });
  m.def("_draws_as_eager() -> bool", [] { return draws_as_eager(); });
  m.def("_draw_with(Generator? generator) -> ()", draw_with);
  // What ops are recorded as the code of, by this thread; empty: the Python line that is executing.
  m.def("_set_line(str line) -> ()", [](const std::string& line) { lazy::set_line(line); });
}

}  // namespace lazuli::backend
