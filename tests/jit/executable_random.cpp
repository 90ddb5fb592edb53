// Random graphs: compiled and fused against the reference interpreter, which knows nothing of fusion, views as strides
// or memory reuse. LAZULI_FUZZ_SEEDS runs more of them.
#include "ir/error.h"
#include "ir/interpret.h"
#include "ir/print.h"
#include "tests/ir/fuzz.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Dims;
using ir::Op;
using ir::Value;

class RandomModel {
 public:
  explicit RandomModel(uint32_t seed) : gen_(seed) {
    const int64_t sizes[] = {1, 2, 3, 5, 8, 12, 17};
    a_ = sizes[pick(7)], b_ = sizes[pick(7)], c_ = sizes[pick(7)];
    for (const Dims& s : {Dims{a_, b_, c_}, Dims{a_, b_, c_}, Dims{b_, c_}, Dims{c_}, Dims{a_, c_, b_}, Dims{}})
      values_.push_back(m.input(s));
    inputs = values_.size();
    index_ = m.input(ir::DType::I64, {3});
    for (int i = 0, n = 6 + pick(24); i < n; ++i) {
      try {
        grow();
      } catch (const lazuli::TypeError&) {  // no element left to reduce or crop
      }
    }
    for (int i = 0, n = 1 + pick(4); i < n; ++i)
      m.graph.outputs.push_back(values_[values_.size() - 1 - pick(std::min<int>(8, values_.size() - 1))]);
    for (size_t i = 0; i < inputs; ++i) m.graph.donated.push_back(pick(2));
    m.graph.donated.push_back(false);  // the indices
  }

  Model m;
  size_t inputs;  // of floats; one of three indices follows

 private:
  int pick(int n) { return static_cast<int>(gen_() % static_cast<uint32_t>(n)); }
  Value any() { return values_[pick(static_cast<int>(values_.size()))]; }
  Value recent() { return values_[values_.size() - 1 - pick(std::min<int>(5, static_cast<int>(values_.size())))]; }
  // Some value that broadcasts with x's shape without widening it.
  Value beside(Value x) {
    for (int i = 0; i < 20; ++i) {
      Value y = any();
      try {
        if (ir::broadcast_shapes(m.shape(x), m.shape(y)) == m.shape(x)) return y;
      } catch (const lazuli::TypeError&) {}
    }
    return x;
  }

  void grow() {
    Value x = recent();
    const Dims shape = m.shape(x);
    const int rank = static_cast<int>(shape.size());
    switch (pick(18)) {
      case 0:
      case 1:
      case 2:
        return add(m.add(x, beside(x)));
      case 3:
        return add(m.mul(x, beside(x)));
      case 4:
        return add(m.apply(Op::tanh, {x}));
      case 5:
        return add(m.apply(Op::sigmoid, {m.sub(x, beside(x))}));
      case 6:
        return add(m.apply(Op::maximum, {x, beside(x)}));
      case 7:
        return rank > 1 ? add(m.transpose(x)) : void();
      case 8:
        return add(m.reshape(x, rank == 3 ? Dims{shape[0] * shape[1], shape[2]} : Dims{1, ir::product(shape)}));
      case 9:
        return rank ? reduce(x, Op::sum) : void();
      case 10:
        return rank ? reduce(x, Op::amax) : void();
      case 11:
        return rank ? add(m.apply(Op::softmax, {x}, ir::Attrs{{pick(rank)}})) : void();
      case 12:
        return rank ? slice(x) : void();
      case 13:
        return rank ? add(m.emit(Op::cat, std::vector<Value>{x, x}, ir::Attrs{{pick(rank)}}, {})) : void();
      case 14:
        return rank == 2 && ir::product(shape) < 400 ? add(m.mul(m.apply(Op::matmul, {x, m.transpose(x)}), 0.1))
                                                     : void();
      case 15:
        return rank && shape[0] > 2 ? add(m.apply(Op::index_select, {x, index_}, ir::Attrs{{0}})) : void();
      case 16:
        return rank ? scatter(x) : void();
      default:
        return rank ? pad(x) : void();
    }
  }
  void reduce(Value x, Op op) {
    const int64_t rank = m.type(x).rank();
    Dims dims{pick(static_cast<int>(rank))};
    if (rank == 3 && pick(2)) dims = pick(2) ? Dims{0, 2} : Dims{0, 1};
    Value y = m.apply(op, {x}, ir::Attrs().add(dims).add(pick(2)));
    add(op == Op::sum ? m.mul(y, 0.1) : y);
  }
  void slice(Value x) {
    Dims starts, sizes, steps;
    for (int64_t n : m.shape(x)) {
      starts.push_back(n > 1 ? pick(2) : 0);
      steps.push_back(1 + pick(2));
      sizes.push_back((n - starts.back() + steps.back() - 1) / steps.back());
    }
    add(m.apply(Op::slice, {x}, ir::Attrs().add(starts).add(sizes).add(steps)));
  }
  // The last row (or column) of x, changed and put back.
  void scatter(Value x) {
    const Dims shape = m.shape(x), strides = ir::contiguous_strides(shape);
    const size_t d = pick(static_cast<int>(shape.size()));
    Dims starts(shape.size(), 0), sizes = shape;
    starts[d] = shape[d] - 1, sizes[d] = 1;
    Value part = m.apply(Op::slice, {x}, ir::Attrs().add(starts).add(sizes).add(Dims(shape.size(), 1)));
    add(m.apply(Op::as_strided_scatter, {x, m.add(part, 1.0)}, ir::Attrs().add(strides).add(starts[d] * strides[d])));
  }
  void pad(Value x) {
    Dims low, high;
    for (size_t d = 0; d < m.shape(x).size(); ++d)
      low.push_back(pick(4) - 1), high.push_back(m.shape(x)[d] > 2 ? pick(3) - 1 : pick(2));
    add(m.apply(Op::pad, {x, m.constant(0.5, ir::DType::F32)}, ir::Attrs().add(low).add(high)));
  }
  void add(Value v) {
    if (m.type(v).numel() <= 20000) values_.push_back(v);
  }

  std::mt19937 gen_;
  int64_t a_, b_, c_;
  Value index_;
  std::vector<Value> values_;
};

void check(uint32_t seed, const jit::CompileOptions& options) {
  RandomModel r(seed);
  const ir::Graph& g = r.m.graph;
  SCOPED_TRACE("seed " + std::to_string(seed) + "\n" + ir::print(g));
  TestHost host;
  std::vector<jit::Buffer> inputs;
  std::vector<ir::Tensor> tensors;
  for (uint32_t n = 0; n < r.inputs; ++n) {
    const Floats v = random_floats(g.nodes[n].types[0].numel(), seed * 10 + n);
    inputs.push_back(buffer_of(host, v));
    tensors.emplace_back(g.nodes[n].types[0], std::vector<double>(v.begin(), v.end()));
  }
  const std::vector<int64_t> index{2, 0, 1};
  inputs.push_back(buffer_of(host, index));
  tensors.emplace_back(ir::Type{ir::DType::I64, {3}}, std::vector<double>{2, 0, 1});
  const auto want = ir::interpret(g, tensors);
  auto e = jit::compile(g, options);
  SCOPED_TRACE(e->plan_text());
  auto kept = run(*e, host, g, inputs, {}, false);
  auto got = run(*e, host, g, inputs, {}, true);
  for (size_t i = 0; i < want.size(); ++i) {
    Floats w;
    for (int64_t j = 0; j < want[i].type.numel(); ++j) w.push_back(static_cast<float>(want[i].at(j)));
    expect_close(kept.floats[i], w, 2e-4f);
    expect_close(got.floats[i], w, 2e-4f);
  }
}

using ir::testing::seeds;

TEST(ExecutableRandom, CompiledGraphsAgreeWithTheInterpreter) {
  for (uint32_t s = 1; s <= seeds(60) && !HasFailure(); ++s) check(s, {});
}

TEST(ExecutableRandom, SoDoInterpretedKernels) {
  jit::CompileOptions o;
  o.interpret_kernels = true;
  for (uint32_t s = 1000; s <= 1000 + seeds(150) && !HasFailure(); ++s) check(s, o);
}

TEST(ExecutableRandom, SoDoUnfusedKernels) {
  jit::CompileOptions o;
  o.interpret_kernels = true;
  o.fusion = false;
  for (uint32_t s = 5000; s <= 5000 + seeds(60) && !HasFailure(); ++s) check(s, o);
}

}  // namespace
}  // namespace lazuli::testing
