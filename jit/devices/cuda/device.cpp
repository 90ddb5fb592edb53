#include "jit/devices/cuda/device.h"
#include <map>
#include <mutex>
#include "jit/arguments.h"
#include "jit/devices/cuda/driver.h"
#include "jit/devices/cuda/launch.h"
#include "jit/devices/cuda/kernels.h"
#include "jit/devices/cuda/linker.h"
#include "jit/devices/cuda/status_words.h"
#include "jit/failures.h"
#include "lowering/cuda_libraries.h"

namespace lazuli::jit {
namespace {

using cuda::Context;
using lowering::PlanStep;

class CudaKernelStep final : public KernelStep {
 public:
  CudaKernelStep(const Context& context, cuda::StatusWords& words, const ir::Graph& graph, const PlanStep& step,
                 const lowering::GpuLaunch& launch, cuda::Function function)
      : context_(context), words_(words), launch_(launch), function_(function) {
    const lowering::GpuArgsLayout at(step.loops.nest, launch.variant.chunked);
    const size_t plain = lowering::KernelArgsLayout(step.loops.nest).total;
    int64_t* args = arguments_.add(step, 0, at.total - plain);
    if (step.loops.nest.checks) {
      status_ = words.take(failure_texts(graph, step));
      args[at.status] = reinterpret_cast<int64_t>(status_);
    }
    if (!launch.variant.chunked) return;
    args[at.chunk_size] = step.loops.sizes[step.chunk_dim];
    args[at.chunk_total] = step.chunk_total;
    for (size_t a = 0; a < step.loops.accesses.size(); ++a) args[at.moves + a] = chunk_move(step, a);
  }

  ~CudaKernelStep() override {
    if (status_) words_.release(status_);
  }

  void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void* stream) override {
    if (!launch_.grid[0]) return;
    arguments_.fill(memory, scalars);
    context_.launch(function_, launch_.grid, launch_.threads, arguments_.data(), stream);
  }

 private:
  const Context& context_;
  cuda::StatusWords& words_;
  int64_t* status_ = nullptr;
  lowering::GpuLaunch launch_;
  cuda::Function function_;
  Arguments arguments_;
};

class CudaDevice final : public Device {
 public:
  explicit CudaDevice(int index) : context_(Context::get(index)), words_(context_) {
    const cuda::Attributes& a = context_.attributes();
    target_ = {a.multiprocessors, a.threads_per_multiprocessor, a.capability};
    cuda::linker_version();  // says now what is missing
  }

  lowering::PlanOptions plan_options(const CompileOptions& options) const override {
    return {.fusion = options.fusion,
            .threads = target_.multiprocessors,
            .tiles = false,
            .libraries = &lowering::cuda_libraries(options.matmul)};
  }

  std::vector<std::unique_ptr<KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan, const CompileOptions&,
                                                Dump& dump) override {
    std::vector<std::unique_ptr<KernelStep>> steps(plan.steps.size());
    std::vector<size_t> at;
    std::vector<lowering::GpuLaunch> launches;
    std::vector<cuda::KernelRequest> requests;
    for (size_t s = 0; s < steps.size(); ++s) {
      const PlanStep& step = plan.steps[s];
      if (step.kind != PlanStep::Kernel) continue;
      at.push_back(s);
      launches.push_back(cuda::choose_launch(step, target_));
      requests.push_back({&step.loops.nest, launches.back().variant, label(graph, step)});
    }
    const auto kernels = cuda::kernels_for(context_, requests);
    for (size_t i = 0; i < at.size(); ++i) {
      steps[at[i]] = std::make_unique<CudaKernelStep>(context_, words_, graph, plan.steps[at[i]], launches[i],
                                                       kernels[i]->function);
      dump.gpu_kernel(kernels[i]->name, *requests[i].nest, requests[i].variant, target_.capability);
    }
    return steps;
  }

  void start() override { context_.make_current(); }
  void raise_failures() override { words_.raise(); }
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
