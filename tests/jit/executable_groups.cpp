// Plans whose kernels run several to a launch give what they give one by one.
#include <omp.h>
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using ir::Value;

struct Groups : ::testing::Test {
  Model m;
  TestHost host;
  std::vector<jit::Buffer> inputs;

  Value input(ir::Dims shape) {
    const auto seed = static_cast<uint32_t>(inputs.size() + 1);
    inputs.push_back(buffer_of(host, random_floats(ir::product(shape), seed, 0.1f, 1)));
    return m.input(std::move(shape));
  }
  // With several threads and with one, against interpreted kernels of a plan without fusion.
  void check(const std::vector<int64_t>& scalars = {}, bool expect_group = true) {
    auto grouped = jit::compile(m.graph, {});
    EXPECT_EQ(grouped->plan_text().find("in the launch of") != std::string::npos, expect_group) << grouped->plan_text();
    jit::CompileOptions reference;
    reference.fusion = false;
    reference.interpret_kernels = true;
    auto plain = jit::compile(m.graph, reference);
    const Ran want = run(*plain, host, m.graph, inputs, scalars);
    const int before = omp_get_max_threads();
#ifdef __SANITIZE_THREAD__
    const std::vector<int> counts = {1};  // it does not see libgomp's barriers
#else
    const std::vector<int> counts = {1, 2, 5};
#endif
    for (int threads : counts) {
      omp_set_num_threads(threads);
      const Ran got = run(*grouped, host, m.graph, inputs, scalars);
      for (size_t i = 0; i < got.floats.size(); ++i) expect_close(got.floats[i], want.floats[i], 1e-4f);
    }
    omp_set_num_threads(before);
  }
};

TEST_F(Groups, OfManySizes) {
  for (int64_t n : {1, 5000, 0, 17, 200000, 64, 65, 1023, 90000, 3})
    m.graph.outputs.push_back(m.mul(m.apply(Op::exp, {input({n})}), input({n})));
  check();
}

TEST_F(Groups, OfSteps) {
  auto number = [&] { return m.scalar(ir::DType::F32); };
  const Value rate = number(), decay1 = number(), decay2 = number(), eps = number();
  for (int64_t n : {7, 3000, 100, 40000}) {
    const Value x = input({n}), g = input({n}), mean = input({n}), square = input({n}), step = input({});
    m.apply(Op::adam_step,
            {x, g, mean, square, Value{}, step, rate, decay1, decay2, Value{}, eps, Value{}, Value{}, Value{}},
            ir::Attrs{{0}, {0}});
    for (int r = 0; r < 3; ++r) m.graph.outputs.push_back(m.all()[static_cast<size_t>(r)]);
  }
  std::vector<int64_t> scalars;
  for (double x : {0.1, 0.1, 0.01, 1e-8}) scalars.push_back(std::bit_cast<int64_t>(x));
  check(scalars);
}

TEST_F(Groups, OfSplitSums) {
  for (int64_t n : {100000, 120000, 70000}) m.graph.outputs.push_back(m.sum(input({n}), ir::Dims{0}, false));
  check();
}

TEST_F(Groups, OfRowsAndColumns) {
  for (int64_t n : {3, 60, 17}) {
    m.graph.outputs.push_back(m.sum(input({n, 40}), ir::Dims{1}, false));
    m.graph.outputs.push_back(m.sum(input({50, n}), ir::Dims{0}, false));
  }
  check();
}

// Small graphs in which kernels of one nest abound, some behind each other, with inputs that die.
TEST(GroupsOfRandomGraphs, GiveWhatStepsGive) {
  for (uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    auto pick = [&](size_t n) { return random() % n; };
    Model m;
    TestHost host;
    std::vector<Floats> data;
    std::vector<std::vector<Value>> values;  // by size
    for (int64_t n : {5, 300, 301, 40}) {
      std::vector<Value>& pool = values.emplace_back();
      for (int i = 0; i < 3; ++i) {
        data.push_back(random_floats(n, static_cast<uint32_t>(seed * 100 + data.size()), 0.1f, 1));
        pool.push_back(m.input({n}));
        m.graph.donated.push_back(pick(2) != 0);
      }
    }
    for (int i = 0; i < 30; ++i) {
      std::vector<Value>& pool = values[pick(values.size())];
      const Value x = pool[pick(pool.size())], y = pool[pick(pool.size())];
      switch (pick(4)) {
        case 0:
          pool.push_back(m.apply(Op::tanh, {x}));
          break;
        case 1:
          pool.push_back(m.apply(Op::maximum, {x, y}));
          break;
        case 2:
          pool.push_back(m.apply(Op::cumsum, {m.mul(x, 0.01)}, ir::Attrs{{0}}));
          break;
        default:
          pool.push_back(m.sub(x, m.apply(Op::amax, {y}, ir::Attrs{{0}, {1}})));
      }
      if (pick(3) == 0) m.graph.outputs.push_back(pool.back());
    }
    m.graph.outputs.push_back(values[0].back());
    jit::CompileOptions reference;
    reference.fusion = false;
    reference.interpret_kernels = true;
    auto inputs = [&] {
      std::vector<jit::Buffer> in;
      for (const Floats& d : data) in.push_back(buffer_of(host, d));
      return in;
    };
    const Ran want = run(*jit::compile(m.graph, reference), host, m.graph, inputs());
    const Ran got = run(*jit::compile(m.graph, {}), host, m.graph, inputs(), {}, /*donate=*/true);
    for (size_t i = 0; i < got.floats.size(); ++i) {
      SCOPED_TRACE("seed " + std::to_string(seed) + " output " + std::to_string(i));
      expect_close(got.floats[i], want.floats[i], 1e-4f);
    }
  }
}

TEST_F(Groups, OfOne) {
  m.graph.outputs = {m.apply(Op::exp, {input({100})})};
  check({}, false);
}

TEST_F(Groups, AFailureNamesItsOwnLine) {
  for (int i = 0; i < 3; ++i) {
    m.at_line("model.py:" + std::to_string(i + 1));
    inputs.push_back(buffer_of(host, std::vector<int64_t>(static_cast<size_t>(i + 4), i == 1 ? 0 : 2)));
    const Value x = m.input(ir::DType::I64, {i + 4});
    m.graph.outputs.push_back(m.apply(Op::floor_divide, {x, x}));
  }
  auto e = jit::compile(m.graph, {});
  try {
    run(*e, host, m.graph, inputs);
    FAIL() << e->plan_text();
  } catch (const jit::ExecutionError& error) {
    EXPECT_NE(std::string(error.what()).find("model.py:2"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace lazuli::testing
