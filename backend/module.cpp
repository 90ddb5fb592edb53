// What the Python package calls: torch.ops.lazuli.*. Structured results travel as JSON text.
#include <chrono>
#include <cstdio>
#include <sstream>
#include <ATen/Version.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/library.h>
#include "backend/autograd/engine.h"
#include "backend/autograd/light.h"
#include "backend/autograd/region.h"
#include "backend/autograd/step.h"
#include "backend/device/generator.h"
#include "jit/kernels/improvement.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/record/recording.h"
#include "lazy/report/observer.h"
#include "lazy/run/lent_memory.h"
#include "lazy/run/run_ahead.h"
#include "lazy/run/runner.h"
#include "lazy/run/sync.h"
#include "lazy/shadow/reproduction.h"
#include "lazy/shadow/shadow.h"
#include "lazy/support/config.h"
#include "lazy/support/metrics.h"
#include "lazy/support/mutex.h"

namespace lazuli::backend {
namespace {

void synchronize(int64_t) { lazy::finish(); }
void step_end() {
  if (lazy::config().cut_at_step) lazy::sync(lazy::SyncReason::Step);
}
void set_config(const std::string& name, const std::string& value) {
  try {
    lazy::set_config(name, value);
  } catch (const std::invalid_argument& e) {
    TORCH_CHECK_VALUE(false, e.what());
  }
}
void manual_seed(int64_t seed) { generator_of(std::nullopt).set_current_seed(static_cast<uint64_t>(seed)); }
at::Tensor get_rng_state(int64_t) { return at::Tensor(generator_of(std::nullopt).get_state()); }
void set_rng_state(const at::Tensor& state, int64_t) {
  generator_of(std::nullopt).set_state(*state.unsafeGetTensorImpl());
}
// Addresses, three for each type of autograd node: its name in Python, its std::type_info, room for its Python type.
std::vector<int64_t> autograd_node_types() {
  std::vector<int64_t> out;
  for (const NodeType& t : node_types())
    for (const void* p :
         {static_cast<const void*>(t.name), static_cast<const void*>(t.type), static_cast<const void*>(t.python_type)})
      out.push_back(reinterpret_cast<int64_t>(p));
  return out;
}
void set_device(int64_t index) { TORCH_CHECK(index == 0, "lazuli: there is no device lazuli:", index); }
// By the names of torch.cuda.memory_stats, as a JSON object.
std::string memory_stats(int64_t) {
  const lazy::MemoryStats s = lazy::memory_stats();
  std::ostringstream o;
  const auto counter = [&](const std::string& name, const c10::CachingAllocator::Stat& stat) {
    o << '"' << name << ".current\": " << stat.current << ", \"" << name << ".peak\": " << stat.peak << ", \"" << name
      << ".allocated\": " << stat.allocated << ", \"" << name << ".freed\": " << stat.freed << ", ";
  };
  const auto counters = [&](const std::string& name, const c10::CachingAllocator::StatArray& pools) {
    constexpr const char* kPools[] = {".all", ".small_pool", ".large_pool"};
    for (size_t i = 0; i < pools.size(); ++i) counter(name + kPools[i], pools[i]);
  };
  o << "{";
  counters("allocation", s.allocation);
  counters("segment", s.segment);
  counters("active", s.active);
  counters("inactive_split", s.inactive_split);
  counters("allocated_bytes", s.allocated_bytes);
  counters("reserved_bytes", s.reserved_bytes);
  counters("active_bytes", s.active_bytes);
  counters("inactive_split_bytes", s.inactive_split_bytes);
  o << "\"num_alloc_retries\": " << s.num_alloc_retries << ", \"num_ooms\": " << s.num_ooms << "}";
  return o.str();
}
void reset_peak(int64_t) { lazy::reset_peak_memory(); }

std::string dump(const std::string& stage) {
  TORCH_CHECK(stage == "trace", "lazuli: dump knows no stage '", stage,
              "', only 'trace'; LAZULI_DEBUG writes the others for each new trace");
  return lazy::pending_text();
}

std::string shadow_replay(const std::string& graph, const std::vector<at::Tensor>& inputs, std::vector<int64_t> scalars,
                          bool fusion, const std::string& disabled) {
  return lazy::replay(graph, inputs, std::move(scalars), fusion, disabled);
}

std::string shadow_replay_derivative(const std::string& forward, const std::string& backward,
                                     const std::vector<at::Tensor>& inputs, std::vector<int64_t> scalars,
                                     std::vector<int64_t> reads) {
  return lazy::replay_derivative(forward, backward, inputs, scalars, reads);
}

// Nanoseconds for one call from C++, by name of the operator: what dispatch alone costs. The calls form chains of
// `chain`, each over the result of the one before; with gradients, a chain ends by letting go of its history.
double benchmark(const std::string& what, const at::Tensor& a, const at::Tensor& b, int64_t iterations, int64_t chain) {
  TORCH_CHECK_VALUE(chain > 0, "lazuli: a chain has at least one call");
  auto time = [&](auto&& call) {
    auto chains = [&](int64_t n) {
      for (int64_t i = 0; i < n; ++i) {
        at::Tensor t = a;
        for (int64_t j = 0; j < chain; ++j) t = call(t);
      }
    };
    const int64_t n = (iterations + chain - 1) / chain;
    chains(n / 10 + 1);
    auto start = std::chrono::steady_clock::now();
    chains(n);
    return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() /
           static_cast<double>(n * chain);
  };
  if (what == "add") return time([&](const at::Tensor& t) { return at::add(t, b); });
  if (what == "mul") return time([&](const at::Tensor& t) { return at::mul(t, b); });
  if (what == "sin") return time([&](const at::Tensor& t) { return at::sin(t); });
  if (what == "mm") return time([&](const at::Tensor& t) { return at::mm(t, b); });
  if (what == "histc") return time([&](const at::Tensor& t) { return at::histc(t, 16); });
  if (what == "view") return time([&](const at::Tensor& t) { return t.view({-1}); });
  if (what == "add_") {
    at::Tensor c = a.detach().clone();
    return time([&](const at::Tensor&) { return c.add_(b); });
  }
  TORCH_CHECK_VALUE(false, "lazuli: no benchmark is called '", what, "'");
}

// What is shared and under no other lock, made before another thread may fork (lazy/support/mutex.h).
void make_shared_state() {
  lazy::recorder();
  lazy::RunAhead::get();
  lazy::metrics();
  lazy::Observer::get();
  graph_mutex();
  at::get_cpu_capability();  // torch's own first look, which its kernels wait for
}

// A tensor of the CPU over the tensor's lent memory, which it keeps.
at::Tensor host_view(const at::Tensor& t) {
  void* data = reinterpret_cast<void*>(lazy::lend_address(t));
  return at::from_blob(data, t.sizes(), t.strides(), [kept = t](void*) {}, t.options().device(at::kCPU));
}
}  // namespace

TORCH_LIBRARY(lazuli, m) {
  make_shared_state();
  m.def("_lend_address(Tensor tensor) -> int", lazy::lend_address);
  m.def("_host_view(Tensor tensor) -> Tensor", torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, host_view));
  m.def("_metrics() -> str", [] { return lazy::metrics().json(); });
  m.def("_metrics_reset() -> ()", [] { lazy::metrics().reset(); });
  m.def("_explain() -> str", [] { return lazy::metrics().explain(); });
  m.def("_report_start() -> ()", [] {
    lazy::metrics().keep_events(true);
    lazy::Observer::get().start();
  });
  m.def("_report_stop() -> ()", [] {
    lazy::Observer::get().stop();
    lazy::metrics().keep_events(false);
  });
  m.def("_report_events() -> str", [] { return lazy::metrics().kept_events(); });
  m.def("_report_take() -> Any", [] { return lazy::Observer::get().take(); });
  m.def("_environment_error() -> str", [] { return lazy::environment_error(); });
  m.def("_config_get() -> str", [] { return lazy::config_json(); });
  m.def("_config_set(str name, str json_value) -> ()", set_config);
  m.def("_synchronize(int device) -> ()", synchronize);
  m.def("_backing() -> Device", [] { return lazy::backing().device(); });
  m.def("_device_count() -> int", [] { return int64_t{1}; });
  m.def("_current_device() -> int", [] { return int64_t{0}; });
  m.def("_set_device(int index) -> ()", set_device);
  // torch.accelerator's streams are another device's where that is torch's accelerator.
  m.def("_current_stream(int index) -> Stream", [](int64_t i) {
    return c10::impl::VirtualGuardImpl(c10::kPrivateUse1)
        .getStream({c10::kPrivateUse1, static_cast<c10::DeviceIndex>(i)});
  });
  m.def("_default_stream(int index) -> Stream", [](int64_t i) {
    return c10::impl::VirtualGuardImpl(c10::kPrivateUse1)
        .getDefaultStream({c10::kPrivateUse1, static_cast<c10::DeviceIndex>(i)});
  });
  m.def("_set_stream(Stream stream) -> ()",
        [](c10::Stream s) { c10::impl::VirtualGuardImpl(c10::kPrivateUse1).exchangeStream(s); });
  m.def("_manual_seed(int seed) -> ()", manual_seed);
  m.def("_get_rng_state(int device) -> Tensor", get_rng_state);
  m.def("_set_rng_state(Tensor state, int device) -> ()",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, set_rng_state));
  m.def("_step_end() -> ()", step_end);
  m.def("_node_types() -> int[]", autograd_node_types);
  m.def("_take_engine() -> ()", install_engine_hook);
  m.def("_running_node() -> Tensor?", running_node);
  m.def("_has_lost_gpu() -> bool", [] { return lazy::has_lost_gpu(); });
  m.def("_process_ends() -> ()", [] {
    try {
      lazy::finish_unread();
    } catch (const std::exception& e) {
      std::fprintf(stderr, "lazuli: as the process ends: %s\n", e.what());
    }
    lazy::Runner::end();
    lazy::RunAhead::end();
    jit::end_improvements();
  });
  m.def("_memory_stats(int device) -> str", memory_stats);
  m.def("_reset_peak_memory_stats(int device) -> ()", reset_peak);
  m.def("_reset_accumulated_memory_stats(int device) -> ()", [](int64_t) { lazy::reset_accumulated_memory(); });
  m.def("_memory_info(int device) -> (int, int)", [](int64_t) {
    const auto [free, total] = lazy::memory_info();
    return std::tuple(static_cast<int64_t>(free), static_cast<int64_t>(total));
  });
  m.def("_default_generator(int device) -> Generator?", [](int64_t) { return default_generator(); });
  m.def("_empty_cache() -> ()", [] { lazy::release_cached_memory(); });
  m.def("_dump(str stage) -> str", dump);
  m.def("_shadow_reports() -> str", [] { return lazy::take_shadow_reports(); });
  m.def("_shadow_replay_derivative(str forward, str backward, Tensor[] inputs, int[] scalars, int[] reads) -> str",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, shadow_replay_derivative));
  m.def("_shadow_replay(str graph, Tensor[] inputs, int[] scalars, bool fusion, str disabled) -> str",
        torch::dispatch(c10::DispatchKey::CompositeExplicitAutograd, shadow_replay));
  m.def("_benchmark(str what, Tensor a, Tensor b, int iterations, int chain) -> float",
        torch::dispatch(c10::DispatchKey::CompositeImplicitAutograd, benchmark));
}

}  // namespace lazuli::backend

// Through ctypes, which costs less than an operator: around every call of torch's engine from Python. Should one of
// these fail, the engine finds nodes as ever, and says what is wrong.
extern "C" {
[[gnu::visibility("default")]] void lazuli_enter_engine() { lazuli::backend::enter_engine(); }
// `tensors`: the roots, a gradient for each (null: none), and others whose gradients are wanted.
[[gnu::visibility("default")]] void lazuli_begin_backward(size_t roots, size_t others,
                                                          c10::TensorImpl* const* tensors) {
  try {
    lazuli::backend::begin_backward({tensors, roots}, {tensors + roots, roots}, {tensors + 2 * roots, others});
  } catch (...) {
    lazuli::backend::end_backward();
  }
}
[[gnu::visibility("default")]] void lazuli_begin_backward_of(c10::TensorImpl* root, c10::TensorImpl* gradient) {
  c10::TensorImpl* tensors[] = {root, gradient};
  lazuli_begin_backward(1, 0, tensors);
}
[[gnu::visibility("default")]] void lazuli_leave_engine() { lazuli::backend::leave_engine(); }
}
