// Captured runs, on a device that computes at once and captures by remembering its calls: what it is told to do again
// has the results of doing it one by one, wherever inputs and outputs move.
#include <bit>
#include <map>
#include "jit/device.h"
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using jit::Buffer;

// As a GPU does: while a stream is captured nothing is computed. A library's call has the addresses of the capture for
// ever; a kernel of ours gets new ones.
class CapturingDevice final : public jit::Device {
 public:
  using Call = std::function<void(std::span<const Buffer>, std::span<const int64_t>)>;
  int captures = 0, launches = 0, copies = 0;
  bool refuses = false, is_behind = true;

  class Captured final : public jit::CapturedLaunches {
   public:
    explicit Captured(CapturingDevice& d) : device_(d) {}
    std::vector<Call> calls;
    void launch(std::span<const Buffer> memory, std::span<const int64_t> scalars, void*) override {
      ++device_.launches;
      for (const Call& call : calls) call(memory, scalars);
    }

   private:
    CapturingDevice& device_;
  };

  class Kernel final : public jit::KernelStep {
   public:
    Kernel(CapturingDevice& d, std::unique_ptr<KernelStep> k) : device_(d), kernel_(std::move(k)) {}
    void resize() override { kernel_->resize(); }
    void run(std::span<const Buffer> memory, std::span<const int64_t> scalars, void* stream) override {
      device_.enqueue([this, stream](auto m, auto s) { kernel_->run(m, s, stream); }, memory, scalars);
    }

   private:
    CapturingDevice& device_;
    std::unique_ptr<KernelStep> kernel_;
  };

  void enqueue(Call call, std::span<const Buffer> memory, std::span<const int64_t> scalars) {
    capturing_ ? capturing_->calls.push_back(std::move(call)) : call(memory, scalars);
  }

  lowering::PlanOptions plan_options(const jit::CompileOptions& options) const override {
    lowering::PlanOptions plan = jit::cpu_device().plan_options(options);
    plan.pack = false;
    return plan;
  }
  std::vector<std::unique_ptr<jit::KernelStep>> load(const ir::Graph& graph, const lowering::Plan& plan,
                                                     const jit::CompileOptions& options, jit::Dump& dump) override {
    for (const lowering::PlanStep& step : plan.steps)
      if (step.call) counts_[step.call.get()] = {step.operands.size(), step.results.size()};
    auto kernels = jit::cpu_device().load(graph, plan, options, dump);
    for (auto& k : kernels)
      if (k) k = std::make_unique<Kernel>(*this, std::move(k));
    return kernels;
  }
  Buffer arena(jit::Host& host, size_t bytes) override { return host.allocate(bytes); }
  std::vector<jit::Dump::Text> texts(std::span<const lowering::PlanStep>, const std::string&) const override {
    return {};
  }
  void copy(void* to, const void* from, size_t bytes, void*) override {
    EXPECT_EQ(capturing_, nullptr);
    ++copies;
    std::memcpy(to, from, bytes);
  }
  void call(lowering::LibraryCall& library, const void* const* operands, void* const* results, void* scratch,
            void*) override {
    // By value, as a graph of the driver keeps them.
    const auto [ins, outs] = counts_.at(&library);
    std::vector<const void*> in(operands, operands + ins);
    std::vector<void*> out(results, results + outs);
    enqueue([&library, in, out, scratch](auto, auto) { library.run(in.data(), out.data(), scratch); }, {}, {});
  }
  bool can_capture() const override { return true; }
  std::unique_ptr<jit::CapturedLaunches> capture(void*, const std::function<void()>& work) override {
    auto captured = std::make_unique<Captured>(*this);
    capturing_ = captured.get();
    work();
    capturing_ = nullptr;
    if (refuses) throw std::runtime_error("it cannot be captured");
    ++captures;
    return captured;
  }
  std::unique_ptr<jit::Mark> mark(void*) override {
    struct Passed final : jit::Mark {
      bool is_behind;
      bool passed() override { return is_behind; }
    };
    auto mark = std::make_unique<Passed>();
    mark->is_behind = is_behind;
    return mark;
  }

 private:
  Captured* capturing_ = nullptr;
  std::map<const lowering::LibraryCall*, std::pair<size_t, size_t>> counts_;  // of operands and results
};

// With a pool: what is given back there keeps its address, and nobody else gets it.
struct CapturingHost final : TestHost, jit::CapturePool {
  explicit CapturingHost(CapturingDevice& d) : device(d) {}
  CapturingDevice& device;
  bool in_pool = false, is_always = true, captures_calls = false, has_no_pool = false;
  uint64_t pool_number = 0;
  std::string why;
  std::vector<Buffer> kept;

  Buffer allocate(size_t bytes) override {
    // Aligned as a GPU's memory is.
    constexpr size_t kAligned = 256;
    Buffer made = TestHost::allocate(bytes + kAligned);
    made.data = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(made.data) + kAligned - 1) & ~(kAligned - 1));
    made.bytes = bytes;
    if (in_pool) kept.push_back(made);
    return made;
  }
  // Three times its input, computed when the device comes to it.
  std::vector<Buffer> external(int64_t, const std::string&, std::span<const jit::BufferView> in,
                               std::span<const ir::Type>) override {
    EXPECT_TRUE(captures_calls || !in_pool);
    const int64_t n = in[0].type.numel();
    Buffer out = allocate(static_cast<size_t>(n) * sizeof(float));
    const float* from = static_cast<const float*>(in[0].buffer.data) + in[0].offset;
    device.enqueue(
        [=, to = static_cast<float*>(out.data)](auto, auto) {
          for (int64_t i = 0; i < n; ++i) to[i] = 3 * from[i];
        },
        {}, {});
    return {out};
  }
  bool may_capture(int64_t) const override { return captures_calls; }
  jit::CapturePool* capture_pool() override { return this; }
  void* stream() override { return nullptr; }
  std::shared_ptr<void> enter() override {
    if (has_no_pool) throw std::runtime_error("there is no pool");
    in_pool = true;
    return {this, [](CapturingHost* host) { host->in_pool = false; }};
  }
  std::shared_ptr<void> hold() override { return nullptr; }
  uint64_t number() override { return pool_number; }
  bool always() override { return is_always; }
  void refused(const std::string& reason, const std::string&) override { why = reason; }
};

// Products, kernels and calls in a row, of which some results are kept; an input is written to.
ir::Graph program(uint32_t seed) {
  std::mt19937 random(seed);
  const auto pick = [&](uint32_t n) { return random() % n; };
  Model m;
  const int64_t n = 16;
  const std::vector<ir::Type> square = {{ir::DType::F32, {n, n}}};
  std::vector<ir::Value> values = {m.input({n, n}), m.input({n, n}), m.input({n, n})};
  const ir::Value scale = m.scalar(ir::DType::F32);
  for (uint32_t i = 0, length = 10 + pick(20); i < length; ++i) {
    const ir::Value a = values[pick(static_cast<uint32_t>(values.size()))];
    const ir::Value b = values[values.size() - 1 - pick(2)];
    switch (pick(6)) {
      case 0:
      case 1:
        values.push_back(m.mul(m.apply(Op::matmul, {a, b}), 1.0 / n));
        break;
      case 2:
        values.push_back(m.apply(Op::tanh, {m.mul(m.add(a, b), scale)}));
        break;
      case 3:
        values.push_back(m.apply(Op::tanh, {m.add(a, b)}));
        break;
      case 4:
        values.push_back(m.mul(m.apply(Op::matmul, {a, m.transpose(b)}), 1.0 / n));
        values.push_back(m.apply(Op::tanh, {values.back()}));
        break;
      default:
        values.push_back(m.emit(Op::external, std::vector<ir::Value>{m.apply(Op::tanh, {a})}, ir::Attrs{{1}}, square));
    }
  }
  m.graph.outputs = {values.back(), m.add(values[2], values[values.size() - 2])};
  for (uint32_t i = 0, more = pick(3); i < more; ++i)
    m.graph.outputs.push_back(values[3 + pick(static_cast<uint32_t>(values.size()) - 3)]);
  m.graph.donated = {false, false, true};
  return m.graph;
}

struct Case {
  uint32_t seed;
  bool captures_calls, refuses, keeps_results, moves_inputs;
};

// As a loop of a program does it; the third input is a parameter, which the second output is the next value of.
void expect_same(const Case& c, CapturingDevice& device, CapturingHost& host, int runs = 14) {
  const ir::Graph graph = program(c.seed);
  TestHost plain;
  plain.kernels = [](int64_t, std::span<const jit::BufferView> in) {
    Floats out(static_cast<size_t>(in[0].type.numel()));
    const float* from = static_cast<const float*>(in[0].buffer.data) + in[0].offset;
    for (size_t i = 0; i < out.size(); ++i) out[i] = 3 * from[i];
    return std::vector<Floats>{out};
  };
  host.captures_calls = c.captures_calls;
  device.refuses = c.refuses;
  jit::CompileOptions options;
  options.pack = false;
  auto reference = jit::compile(graph, options);
  options.device = &device;
  auto captured = jit::compile(graph, options);
  Floats parameter = random_floats(256, 3);
  Buffer own = buffer_of(host, parameter), x = buffer_of(host, parameter), w = buffer_of(host, random_floats(256, 9));
  std::vector<Buffer> kept;
  for (int i = 0; i < runs; ++i) {
    if (i == runs / 2) ++host.pool_number;
    const Floats data = random_floats(256, 100 + static_cast<uint32_t>(i));
    if (c.moves_inputs)
      kept.push_back(std::exchange(x, buffer_of(host, data)));
    else
      std::memcpy(x.data, data.data(), data.size() * sizeof(float));
    const double number = 0.5 + 0.1 * i;
    const std::vector<int64_t> scalars = {std::bit_cast<int64_t>(number)};
    const auto want =
        run(*reference, plain, graph,
            {buffer_of(plain, data), buffer_of(plain, values_of(w)), buffer_of(plain, parameter)}, scalars);
    auto got = run(*captured, host, graph, {x, w, own}, scalars, true);
    for (size_t o = 0; o < want.floats.size(); ++o) ASSERT_EQ(want.floats[o], got.floats[o]) << "run " << i;
    parameter = want.floats[1];
    own = got.outputs[1];
    if (c.keeps_results) kept.insert(kept.end(), got.outputs.begin(), got.outputs.end());
  }
}

class ExecutorCaptures : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ExecutorCaptures, HaveTheResultsOfOneByOne) {
  int launches = 0;
  for (const uint32_t how : {0u, 1u, 2u, 3u, 4u, 5u, 6u, 7u, 8u}) {
    CapturingDevice device;
    CapturingHost host(device);
    expect_same({GetParam(), bool(how & 1), how == 8, bool(how & 2), bool(how & 4)}, device, host);
    if (how == 8) {
      EXPECT_EQ(device.captures + device.launches, 0);
    }
    launches += device.launches;
  }
  RecordProperty("launches", launches);
}
INSTANTIATE_TEST_SUITE_P(Programs, ExecutorCaptures, ::testing::Range(0u, 40u));

// Twenty products in a row, each after a kernel.
ir::Graph row(int64_t n) {
  Model m;
  auto x = m.input({n, n}), w = m.input({n, n});
  for (int i = 0; i < 20; ++i) x = m.apply(Op::matmul, {m.apply(Op::exp, {m.mul(x, -0.01)}), w});
  m.graph.outputs = {x};
  return m.graph;
}

int launches_of(const ir::Graph& graph, CapturingDevice& device, CapturingHost& host, bool keep, int runs = 12) {
  jit::CompileOptions options;
  options.device = &device;
  auto e = jit::compile(graph, options);
  const auto inputs = inputs_of(host, graph);
  std::vector<Buffer> kept;
  for (int i = 0; i < runs; ++i)
    for (Buffer& b : run(*e, host, graph, inputs).outputs)
      if (keep) kept.push_back(b);
  return device.launches;
}

TEST(ExecutorCaptures, AKeptResultIsCopiedFromItsPlace) {
  CapturingDevice device;
  CapturingHost host(device);
  EXPECT_GT(launches_of(row(16), device, host, true), 5);
  EXPECT_EQ(device.captures, 1);
  EXPECT_EQ(device.copies, device.launches);
}

TEST(ExecutorCaptures, AnInputThatMovesAndIsWrittenOverIsCopiedThereAndBack) {
  CapturingDevice device;
  CapturingHost host(device);
  TestHost plain;
  Model m;
  const auto first = m.input({16, 16}), second = m.input({16, 16});
  auto y = m.apply(Op::matmul, {first, second});  // a library's call has the addresses of the capture
  for (int i = 0; i < 8; ++i) y = m.apply(Op::matmul, {m.apply(Op::tanh, {y}), second});
  m.graph.outputs = {m.add(first, m.apply(Op::exp, {y}))};
  m.graph.donated = {true, false};
  const ir::Graph& graph = m.graph;
  jit::CompileOptions options;
  options.pack = false;
  auto reference = jit::compile(graph, options);
  options.device = &device;
  auto captured = jit::compile(graph, options);
  const Floats w = random_floats(256, 9);
  const Buffer weights = buffer_of(host, w);
  std::vector<Buffer> kept;
  for (int i = 0; i < 12; ++i) {
    const Floats x = random_floats(256, 100 + static_cast<uint32_t>(i));
    const auto want = run(*reference, plain, graph, {buffer_of(plain, x), buffer_of(plain, w)});
    const Buffer given = buffer_of(host, x);
    auto got = run(*captured, host, graph, {given, weights}, {}, true);
    ASSERT_EQ(want.floats[0], got.floats[0]) << "run " << i;
    EXPECT_EQ(got.outputs[0].data, given.data);
    kept.push_back(got.outputs[0]);
  }
  EXPECT_GT(device.launches, 5);
  EXPECT_EQ(device.copies, 2 * device.launches);
}

TEST(ExecutorCaptures, ALargeResultThatMovesIsNot) {
  CapturingDevice device;
  CapturingHost host(device);
  EXPECT_EQ(launches_of(row(1'500), device, host, true, 5), 0);
  EXPECT_EQ(device.copies, 0);
}

TEST(ExecutorCaptures, SaysWhyNot) {
  CapturingDevice device;
  CapturingHost host(device);
  launches_of(row(1'500), device, host, true, 16);
  EXPECT_EQ(host.why, "9000000 bytes of its inputs and results are elsewhere in each run");
}

TEST(ExecutorCaptures, WithoutAPoolLaunchesAreMadeOneByOne) {
  CapturingDevice device;
  CapturingHost host(device);
  host.has_no_pool = true;
  expect_same({7, false, false, true, true}, device, host);
  EXPECT_EQ(device.captures + device.launches, 0);
  EXPECT_EQ(host.why, "there is no pool");
}

TEST(ExecutorCaptures, OnlyWhereTheDeviceWaits) {
  for (const bool is_behind : {false, true}) {
    CapturingDevice device;
    CapturingHost host(device);
    host.is_always = false;
    device.is_behind = is_behind;
    const int launches = launches_of(row(16), device, host, true, 20);
    EXPECT_EQ(launches > 5, is_behind);
  }
}

}  // namespace
}  // namespace lazuli::testing
