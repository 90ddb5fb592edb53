#include "jit/devices/cuda/device.h"
#include <algorithm>
#include <deque>
#include <map>
#include <mutex>
#include "jit/devices/cuda/driver.h"
#include "jit/devices/cuda/graph_capture.h"
#include "jit/devices/cuda/kernels.h"
#include "jit/devices/cuda/launch.h"
#include "jit/devices/cuda/linker.h"
#include "jit/devices/cuda/ptx_compiler.h"
#include "jit/devices/cuda/status_words.h"
#include "jit/failures.h"
#include "jit/run/arguments.h"

namespace lazuli::jit {
namespace {

using cuda::Context;
using lowering::PlanStep;

// The launches of steps that share a nest: one, where their variants are the same and their arguments fit.
class CudaLaunch final : public KernelStep {
 public:
  CudaLaunch(Context& context, cuda::StatusWords& words, const lowering::GpuTarget& target, const ir::Graph& graph,
             std::span<const PlanStep> steps)
      : context_(context),
        words_(words),
        target_(target),
        graph_(graph),
        steps_(steps),
        status_(steps.size()),
        groups_(cuda::choose_launches(steps, target)) {
    for (size_t s = 0; s < steps_.size(); ++s) {
      if (!steps_[s].loops.nest.checks) continue;
      std::vector<std::string> texts;
      for (CheckFailure& failure : check_failures(graph_, steps_[s])) texts.push_back(std::move(failure.text));
      status_[s] = words_.take(std::move(texts));
    }
  }
  CudaLaunch(const CudaLaunch&) = delete;
  ~CudaLaunch() override {
    for (int64_t* status : status_)
      if (status) words_.release(status);
  }

  // The kernels that it needs.
  std::vector<cuda::KernelRequest> requests() const {
    std::vector<cuda::KernelRequest> all;
    for (const cuda::GroupLaunch& group : groups_)
      all.push_back({&steps_[0].loops.nest, group.variant, label(graph_, steps_[0])});
    return all;
  }
  // Takes them from the first ones of these, in that order; the others are left.
  std::span<const cuda::Kernel* const> take(std::span<const cuda::Kernel* const> kernels) {
    launches_.clear();
    for (size_t g = 0; g < groups_.size(); ++g) add(groups_[g], kernels[g]->function);
    return kernels.subspan(groups_.size());
  }

  void resize() override {
    groups_ = cuda::choose_launches(steps_, target_);
    take(cuda::kernels_for(context_, requests()));
  }

  void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void* stream) override {
    for (cuda::Launch& one : launches_) {
      one.arguments.fill(memory, scalars);
      cuda::enqueue(context_, one, stream);
    }
  }

 private:
  void add(const cuda::GroupLaunch& group, cuda::Function function) {
    cuda::Launch& one = launches_.emplace_back();
    one.function = function;
    one.threads = group.threads;
    const lowering::GpuLaunch& first = group.members[0];
    std::copy(first.grid, first.grid + 3, one.grid);
    const size_t members = group.variant.members;
    if (members == 1) return add_step(group.steps[0], first.variant.chunked, one.arguments);
    int64_t* blocks = one.arguments.add_words(members, lowering::GpuGroupLayout::kNoMember);
    for (size_t m = 0; m < group.members.size(); ++m) blocks[m] = cuda::first_block(group, m);
    for (size_t s : group.steps) add_step(s, false, one.arguments);
    const lowering::GpuGroupLayout at(steps_[0].loops.nest, members);
    one.arguments.add_words(at.stride * (members - group.members.size()), 0);
    one.grid[0] = static_cast<uint32_t>(cuda::first_block(group, group.members.size()));
  }

  void add_step(size_t s, bool chunked, Arguments& arguments) {
    const PlanStep& step = steps_[s];
    const lowering::GpuArgsLayout at(step.loops.nest, chunked);
    int64_t* args = arguments.add(step, 0, at.total - lowering::KernelArgsLayout(step.loops.nest).total);
    if (step.loops.nest.checks) args[at.status] = reinterpret_cast<int64_t>(status_[s]);
    if (!chunked) return;
    args[at.chunk_size] = step.loops.sizes[step.chunk_dim];
    args[at.chunk_total] = step.chunk_total;
    for (size_t a = 0; a < step.loops.accesses.size(); ++a) args[at.moves + a] = chunk_move(step, a);
  }

  Context& context_;
  cuda::StatusWords& words_;
  const lowering::GpuTarget& target_;
  const ir::Graph& graph_;
  const std::span<const PlanStep> steps_;
  std::vector<int64_t*> status_;  // by step; null: it checks nothing. Kernels that wait in a stream may still write it
  std::vector<cuda::GroupLaunch> groups_;
  std::deque<cuda::Launch> launches_;  // graphs know them by address
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : context_(Context::get(index)), words_(context_) {
    const cuda::Attributes& a = context_.attributes();
    target_ = {a.multiprocessors, a.threads_per_multiprocessor, a.capability};
    cuda::linker_version();  // says now what is missing
  }

  lowering::PlanOptions plan_options(const CompileOptions& options) const override {
    return cuda::plan_options(options, target_);
  }

  std::vector<std::unique_ptr<KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan,
                                                const CompileOptions&, Dump& dump) override {
    std::vector<std::unique_ptr<KernelStep>> steps(plan.steps.size());
    std::vector<cuda::KernelRequest> requests;  // of all, so that new ones are made side by side
    for (uint32_t s = 0; s < steps.size(); ++s) {
      if (plan.steps[s].kind != PlanStep::Kernel || plan.steps[s].joined) continue;
      auto launch = std::make_unique<CudaLaunch>(context_, words_, target_, graph, cuda::members(plan, s));
      std::ranges::move(launch->requests(), std::back_inserter(requests));
      steps[s] = std::move(launch);
    }
    const std::vector<const cuda::Kernel*> kernels = cuda::kernels_for(context_, requests);
    std::span<const cuda::Kernel* const> left(kernels);
    for (const auto& step : steps)
      if (step) left = static_cast<CudaLaunch&>(*step).take(left);
    for (size_t i = 0; i < requests.size(); ++i)
      dump.kernel(kernels[i]->name, [&] { return texts_of(requests[i], kernels[i]->name); });
    return steps;
  }

  // The first kernel's: members that run in other variants differ in how threads share their elements.
  std::vector<Dump::Text> texts(std::span<const PlanStep> members, const std::string& name) const override {
    const cuda::GroupLaunch group = cuda::choose_launches(members, target_).front();
    return texts_of({&members[0].loops.nest, group.variant, name}, name);
  }

  int64_t alignment() const override { return lowering::kAlignment; }
  bool leaves_host_alone() const override { return true; }
  void start() override { context_.make_current(); }
  void raise_failures() override { words_.raise(); }
  bool can_capture() const override { return true; }
  std::unique_ptr<CapturedLaunches> capture(void* stream, const std::function<void()>& enqueue) override {
    return cuda::capture(context_, stream, enqueue);
  }
  std::unique_ptr<Mark> mark(void* stream) override { return cuda::mark(context_, stream); }
  Buffer arena(Host& host, size_t bytes) override { return bytes ? host.allocate(bytes) : Buffer{}; }
  void copy(void* to, const void* from, size_t bytes, void* stream) override {
    context_.make_current();
    context_.copy(to, from, bytes, stream);
  }
  void call(lowering::LibraryCall& library, const void* const* operands, void* const* results, void* scratch,
            void* stream) override {
    library.on_stream(stream);
    library.run(operands, results, scratch);
  }

 private:
  std::vector<Dump::Text> texts_of(const cuda::KernelRequest& r, const std::string& name) const {
    return {{"nest", r.variant.print() + "\n" + r.nest->print()},
            {"ll", cuda::gpu_ir_text(*r.nest, r.variant, name)},
            {"ptx", cuda::compile_ptx(*r.nest, r.variant, name, target_.capability)}};
  }

  Context& context_;
  cuda::StatusWords words_;
  lowering::GpuTarget target_;
};

}  // namespace

Device& cuda_device(int index) {
  static std::mutex mutex;
  static auto* devices = new std::map<int, std::unique_ptr<CudaDevice>>;  // outlives every thread
  std::lock_guard lock(mutex);
  auto& device = (*devices)[index];
  if (!device) device = std::make_unique<CudaDevice>(index);
  return *device;
}

}  // namespace lazuli::jit
