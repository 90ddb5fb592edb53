#include "jit/devices/cuda/emission.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <unordered_set>
#include <unistd.h>
#include "ir/hash.h"
#include "jit/devices/cuda/launch.h"
#include "jit/devices/cuda/ptx_compiler.h"
#include "jit/run/executor.h"
#include "lowering/graph/target_passes.h"

namespace lazuli::jit::cuda {
namespace {

namespace fs = std::filesystem;
using lowering::PlanStep;

// Asked each time: tests whose kernels are too many leave it out for a while.
std::string folder() {
  const char* named = std::getenv("LAZULI_EMIT_PTX");
  if (!named || !*named) return {};
  fs::create_directories(named);
  return named;
}

bool is_new(const std::string& name) {
  static std::mutex mutex;
  static auto* seen = new std::unordered_set<std::string>;  // outlives every thread
  std::lock_guard lock(mutex);
  return seen->insert(name).second && !fs::exists(fs::path(folder()) / name);
}

// Written beside and renamed: a reader sees the whole file or none.
void write(const std::string& name, const std::string& text) {
  const fs::path target = fs::path(folder()) / name, part = target.string() + "." + std::to_string(getpid());
  std::ofstream(part, std::ios::binary) << text;
  fs::rename(part, target);
}

}  // namespace

void emit_for_gpu(const ir::Graph& given, const CompileOptions& options) {
  if (folder().empty()) return;
  const lowering::GpuTarget target;
  const lowering::PlanOptions for_gpu = plan_options(options, target);
  const ir::Graph graph = ir::run_passes(given, lowering::target_passes(*for_gpu.libraries));
  const lowering::Plan plan = lowering::make_plan(graph, for_gpu);
  for (uint32_t s = 0; s < plan.steps.size(); ++s) {
    const PlanStep& step = plan.steps[s];
    if (step.kind != PlanStep::Kernel || step.joined) continue;
    for (const GroupLaunch& g : choose_launches(members(plan, s), target))
      emit_for_gpu(step.loops.nest, g.variant, where(graph, step.node));
  }
}

void emit_for_gpu(const lowering::LoopNest& nest, const lowering::GpuVariant& variant, const std::string& of) {
  if (folder().empty()) return;
  // The kernel's name is its own, so that many fit one module.
  char symbol[24];
  snprintf(symbol, sizeof symbol, "k%016llx", static_cast<unsigned long long>(ir::mix(nest.hash(), variant.hash())));
  const std::string file = symbol + std::string(".ptx");
  if (is_new(file))
    write(file, "// " + of + "\n" + compile_ptx(nest, variant, symbol, lowering::GpuTarget().capability));
}

}  // namespace lazuli::jit::cuda
