#include "jit/devices/cuda/graph_capture.h"
#include <algorithm>
#include <stdexcept>

namespace lazuli::jit::cuda {
namespace {

class CapturedGraph final : public CapturedLaunches {
 public:
  explicit CapturedGraph(const Context& context) : context_(context) {}
  CapturedGraph(const CapturedGraph&) = delete;
  ~CapturedGraph() override { context_.destroy(graph_); }

  void add(Launch& launch, void* node) {
    if (!node) throw std::runtime_error("a captured launch has no node of its own");
    const auto words = launch.arguments.words();
    kernels_.push_back({&launch, node, {words.begin(), words.end()}});
  }
  void end(void* stream) { graph_ = context_.end_capture(stream); }

  void launch(std::span<const Buffer> memory, std::span<const int64_t> scalars, void* stream) override {
    for (Kernel& k : kernels_) {
      k.launch->arguments.fill(memory, scalars);
      const auto words = k.launch->arguments.words();
      if (std::ranges::equal(words, k.last)) continue;
      context_.set_arguments(graph_, k.node, k.launch->function, k.launch->grid, k.launch->threads, words.data());
      std::ranges::copy(words, k.last.begin());
    }
    context_.launch(graph_, stream);
  }

 private:
  struct Kernel {
    Launch* launch;
    void* node;
    std::vector<int64_t> last;  // its arguments in the graph
  };
  const Context& context_;
  Graph graph_;
  std::vector<Kernel> kernels_;
};

thread_local CapturedGraph* capturing = nullptr;

class Event final : public Mark {
 public:
  Event(const Context& context, void* stream) : context_(context), event_(context.record_event(stream)) {}
  Event(const Event&) = delete;
  ~Event() override { context_.destroy_event(event_); }
  bool passed() override { return context_.has_passed(event_); }

 private:
  const Context& context_;
  void* event_;
};

}  // namespace

void enqueue(const Context& context, Launch& launch, void* stream) {
  context.launch(launch.function, launch.grid, launch.threads, launch.arguments.data(), stream);
  if (capturing) capturing->add(launch, context.last_node(stream));
}

std::unique_ptr<CapturedLaunches> capture(const Context& context, void* stream, const std::function<void()>& work) {
  auto graph = std::make_unique<CapturedGraph>(context);
  context.begin_capture(stream);
  capturing = graph.get();
  try {
    work();
  } catch (...) {
    capturing = nullptr;
    try {
      graph->end(stream);
    } catch (const std::runtime_error&) {  // what ended it is more to the point
    }
    throw;
  }
  capturing = nullptr;
  graph->end(stream);
  return graph;
}

std::unique_ptr<Mark> mark(const Context& context, void* stream) { return std::make_unique<Event>(context, stream); }

}  // namespace lazuli::jit::cuda
