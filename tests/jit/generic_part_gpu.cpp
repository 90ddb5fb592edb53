// Parts planned for a GPU serve other sizes, too. Needs no GPU: nothing runs.
#include "jit/device.h"
#include "jit/devices/cuda/launch.h"
#include "jit/devices/cuda/libraries.h"
#include "jit/parts/generic_part.h"
#include "tests/ir/recorded.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

// A GPU's, whose calls look at their sizes when they are made, as they do where there is a GPU.
class GpuLibraries final : public lowering::Libraries {
 public:
  bool serves(const ir::Node& n) const override { return gpu_.serves(n); }
  bool takes(const ir::Node& n, std::span<const lowering::PostOp> ops) const override { return gpu_.takes(n, ops); }
  bool reads(const ir::Node& n, const lowering::Layout& x) const override { return gpu_.reads(n, x); }
  lowering::ChannelsLast channels_last(const ir::Node& n) const override { return gpu_.channels_last(n); }
  int64_t good_multiple(const ir::Node& n) const override { return gpu_.good_multiple(n); }
  std::unique_ptr<lowering::LibraryCall> make(const ir::Node& n, std::span<const lowering::Layout> operands,
                                              std::span<const lowering::Layout> results,
                                              std::span<const lowering::PostOp> ops) const override {
    int64_t elements = 0;
    for (const lowering::Layout& x : results) elements += int64_t{ir::product(x.shape)};
    EXPECT_GT(elements, 0);
    return gpu_.make(n, operands, results, ops);
  }

 private:
  const lowering::Libraries& gpu_ = jit::cuda::libraries({});
};

// Plans as for a GPU, and has kernels that do nothing.
class Planner final : public jit::Device {
 public:
  lowering::PlanOptions plan_options(const jit::CompileOptions& options) const override {
    lowering::PlanOptions own = jit::cuda::plan_options(options, target_);
    own.libraries = &libraries_;
    return own;
  }
  std::vector<std::unique_ptr<jit::KernelStep>> load(const ir::Graph&, const lowering::Plan& plan,
                                                     const jit::CompileOptions&, jit::Dump&) override {
    struct Nothing final : jit::KernelStep {
      void run(std::span<const jit::Buffer>, std::span<const int64_t>, void*) override {}
      void resize() override {}
    };
    std::vector<std::unique_ptr<jit::KernelStep>> kernels(plan.steps.size());
    for (size_t s = 0; s < kernels.size(); ++s)
      if (plan.steps[s].kind == lowering::PlanStep::Kernel) kernels[s] = std::make_unique<Nothing>();
    return kernels;
  }
  jit::Buffer arena(jit::Host&, size_t) override { return {}; }
  std::vector<jit::Dump::Text> texts(std::span<const lowering::PlanStep>, const std::string&) const override {
    return {};
  }
  void copy(void*, const void*, size_t, void*) override {}
  void call(lowering::LibraryCall&, const void* const*, void* const*, void*, void*) override {}

 private:
  const lowering::GpuTarget target_{132, 2048, 90};
  const GpuLibraries libraries_;
};

struct Case {
  const char* name;
  void (*write)(Model& m, int64_t n);
};

void out(Model& m, Value v) { m.graph.outputs.push_back(v); }
Value half(Model& m, ir::Dims shape) { return m.input(DType::BF16, shape); }

// clang-format off
const Case kCases[] = {
    {"linear", [](Model& m, int64_t n) {
       const Value y = m.apply(Op::matmul, {m.input({n, 64}), m.transpose(m.input({128, 64}))});
       out(m, m.apply(Op::relu, {m.apply(Op::add, {y, m.input({128})})}));
     }},
    {"linear of few rows of many", [](Model& m, int64_t n) {
       const Value x = m.reshape(m.input({n, 8, 64}), ir::Dims{8 * n, 64});
       out(m, m.reshape(m.apply(Op::matmul, {x, m.transpose(m.input({128, 64}))}), ir::Dims{n, 8, 128}));
     }},
    {"gradient of the input", [](Model& m, int64_t n) {
       out(m, m.apply(Op::tanh, {m.apply(Op::matmul, {m.input({8 * n, 128}), m.input({128, 64})})}));
     }},
    {"gradient of the weight", [](Model& m, int64_t n) {
       out(m, m.apply(Op::matmul, {m.transpose(m.input({8 * n, 128})), m.input({8 * n, 64})}));
     }},
    {"gradient of the bias", [](Model& m, int64_t n) { out(m, m.sum(m.input({8 * n, 128}), ir::Dims{0}, false)); }},
    {"linear in bfloat16", [](Model& m, int64_t n) {
       const Value y = m.apply(Op::matmul, {half(m, {8 * n, 64}), m.transpose(half(m, {128, 64}))});
       out(m, m.apply(Op::gelu_tanh, {m.apply(Op::add, {y, half(m, {128})})}));
     }},
    {"gradient of the weight in bfloat16", [](Model& m, int64_t n) {
       out(m, m.apply(Op::matmul, {m.transpose(half(m, {8 * n, 256})), half(m, {8 * n, 256})}));
     }},
    {"scores", [](Model& m, int64_t n) {
       const Value s = m.apply(Op::matmul, {m.input({4, n, 32}), m.transpose(m.input({4, n, 32}))});
       out(m, m.apply(Op::matmul, {m.apply(Op::softmax, {s}, {{2}}), m.input({4, n, 32})}));
     }},
    {"layer norm", [](Model& m, int64_t n) {
       const Value w = m.input({64}), b = m.input({64}), eps = m.constant(1e-5, DType::F32);
       out(m, m.apply(Op::layer_norm, {m.input({n, 64}), w, b, eps}, {{1}}));
     }},
};
// clang-format on

TEST(GenericPartOnGpu, OtherSizes) {
  Planner planner;
  jit::CompileOptions options;
  options.device = &planner;
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    const auto with_part = [&](int64_t n, auto use) {
      Model m;
      c.write(m, n);
      const ir::testing::Recorded recorded(m.graph);
      const ir::Listing listing = recorded.listing();
      const ir::Parts parts = ir::cut(listing, recorded.live(), {}, 64);
      for (size_t p = 0; p < parts.size(); ++p) use(listing, parts, p);
    };
    std::vector<jit::SeenNumbers> seen(4);
    std::vector<std::unique_ptr<jit::GenericPart>> plans;
    with_part(40, [&](const auto&, const ir::Parts& parts, size_t p) { seen[p].see(parts.numbers_of(p)); });
    with_part(51, [&](const ir::Listing& listing, const ir::Parts& parts, size_t p) {
      seen[p].see(parts.numbers_of(p));
      plans.push_back(std::make_unique<jit::GenericPart>(listing, parts, p, ir::testing::no_lines, seen[p], options));
    });
    for (int64_t n : {36, 41, 52, 57, 63})
      with_part(n, [&](const auto&, const ir::Parts& parts, size_t p) {
        EXPECT_TRUE(plans[p]->executable(parts.numbers_of(p), options))
            << n << ": needs " << plans[p]->why_not(parts.numbers_of(p));
      });
  }
}

}  // namespace
}  // namespace lazuli::testing
