// Kernels against the interpreter to the last bit: positions, roundings to narrow types, reductions of little and of
// much, on one thread and on several, whose share of a large reduction is a chunk of it.
#include <bit>
#include "ir/interpret.h"
#include "ir/print.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Dims;
using ir::DType;
using ir::Op;
using ir::Value;

std::vector<double> numbers_of(const ir::Type& type, const jit::Buffer& b) {
  ir::Tensor t(type);
  if (!t.data.empty()) std::memcpy(t.data.data(), b.data, t.data.size());
  std::vector<double> out;
  for (int64_t i = 0; i < type.numel(); ++i) out.push_back(t.at(i));
  return out;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

class Sheet {
 public:
  // An input with these numbers.
  Value given(DType t, const Dims& shape, const std::vector<double>& numbers) {
    inputs_.emplace_back(ir::Type{t, shape}, numbers);
    return m.input(t, shape);
  }
  // An input of multiples of 1/16 between -2 and 2, all of which every floating type has.
  Value sixteenths(DType t, const Dims& shape, uint32_t seed = 1) {
    std::vector<double> numbers;
    for (float f : random_floats(ir::product(shape), seed, -32, 32)) numbers.push_back(std::floor(f) / 16);
    return given(t, shape, numbers);
  }
  Value run_time_number(double x) {
    scalars_.push_back(std::bit_cast<int64_t>(x));
    return m.scalar(DType::F32);
  }
  Value iota(int64_t n) { return m.emit(Op::iota, std::span<const Value>(), ir::Attrs{{n}}, {}); }

  void check(std::vector<Value> outputs) {
    m.graph.outputs = std::move(outputs);
    const std::vector<ir::Tensor> want = ir::interpret(m.graph, inputs_, scalars_);
    std::vector<jit::Buffer> in;
    for (const ir::Tensor& t : inputs_) in.push_back(buffer_of(host, t.data));
    for (int threads : {1, 4}) {
      jit::CompileOptions options;
      options.threads = threads;
      auto e = jit::compile(m.graph, options);
      SCOPED_TRACE(ir::print(m.graph) + e->plan_text());
      const Ran r = run(*e, host, m.graph, in, scalars_);
      for (size_t o = 0; o < want.size(); ++o) {
        const std::vector<double> got = numbers_of(want[o].type, r.outputs[o]);
        for (size_t i = 0; i < got.size(); ++i)
          ASSERT_TRUE(same(got[i], want[o].at(static_cast<int64_t>(i))))
              << "output " << o << ", element " << i << ": " << got[i] << " against "
              << want[o].at(static_cast<int64_t>(i));
      }
    }
  }

  TestHost host;
  Model m;

 private:
  std::vector<ir::Tensor> inputs_;
  std::vector<int64_t> scalars_;
};
struct ExecutableExact : ::testing::Test, Sheet {};

constexpr int64_t kMany = 200'003;  // enough for a reduction in chunks

TEST_F(ExecutableExact, ThePositionOfTheLargestOfMany) {
  std::vector<double> numbers(kMany, 1);
  numbers[150'001] = 3, numbers[170'000] = 3, numbers[120'000] = -3;
  const Value x = given(DType::F32, {kMany}, numbers);
  check({m.apply(Op::argmax, {x}, {{0}, {0}}), m.apply(Op::argmin, {x}, {{0}, {0}})});
}

TEST_F(ExecutableExact, ASumThatKnowsItsPositions) {
  const Value x = given(DType::I64, {kMany}, std::vector<double>(kMany, 2));
  check({m.sum(m.mul(x, iota(kMany)), Dims{0}, false)});
}

TEST_F(ExecutableExact, WhatFollowsASumOfMany) {
  const Value x = sixteenths(DType::F32, {kMany / 7, 7}), y = sixteenths(DType::F32, {7}, 2);
  const Value doubled = m.mul(x, 2.0);
  check({m.add(m.sum(doubled, Dims{0}, false), m.mul(y, y)), doubled});
}

TEST_F(ExecutableExact, ThePositionInWhatLiesInAnotherOrder) {
  std::vector<double> numbers;
  for (int i = 0; i < 5 * 12 * 3; ++i) numbers.push_back((i * 7) % 180);
  const Value x = given(DType::F32, {5, 12, 3}, numbers);
  const Value turned = m.permute(x, Dims{2, 1, 0});
  check({m.apply(Op::argmax, {turned}, {{0, 1, 2}, {0}}), m.apply(Op::argmin, {turned}, {{0, 1, 2}, {0}}),
         m.apply(Op::argmax, {m.reshape(turned, Dims{180})}, {{0}, {0}})});
}

TEST_F(ExecutableExact, ThePositionOfTheLargestFraction) {
  const Value x = given(DType::F32, {2, 5}, {0.1, 0.3, 0.9, 0.2, 0.5, -0.5, -0.1, -0.9, -0.2, -0.3});
  check({m.apply(Op::argmax, {x}, {{1}, {0}}), m.apply(Op::argmin, {x}, {{1}, {0}}),
         m.apply(Op::argmax, {x}, {{0}, {0}})});
}

// In two rows of n numbers, along each and across them.
void check_positions(int64_t n, const std::vector<double>& numbers) {
  Sheet s;
  const Value x = s.given(DType::F32, {2, n}, numbers);
  std::vector<Value> outputs;
  for (int64_t dim : {0, 1})
    for (Op op : {Op::argmax, Op::argmin}) outputs.push_back(s.m.apply(op, {x}, {{dim}, {0}}));
  s.check(outputs);
}

TEST(ExecutableExactPositions, ThePositionOfTheFirstNan) {
  for (int64_t n : {3, 40, 200}) {
    std::vector<double> numbers(static_cast<size_t>(2 * n), 1);
    numbers[static_cast<size_t>(n) / 2] = NAN, numbers[static_cast<size_t>(n) - 1] = NAN, numbers[0] = INFINITY;
    numbers[static_cast<size_t>(n) + 1] = -INFINITY;
    check_positions(n, numbers);
  }
}

// No lane of the last vector takes the place of one that has seen something, though that be the least there is.
TEST(ExecutableExactPositions, ThePositionOfTheLeastThereIs) {
  for (int64_t n = 1; n < 40; ++n)
    for (double least : {double{-INFINITY}, double{NAN}}) {
      std::vector<double> numbers(static_cast<size_t>(2 * n), least);
      for (int64_t i = 0; i < n; ++i) numbers[static_cast<size_t>(n + i)] = -least;
      check_positions(n, numbers);
      if (HasFatalFailure()) return;
    }
}

TEST_F(ExecutableExact, NarrowResultsAreRoundedBeforeTheyAreRead) {
  std::vector<Value> outputs;
  for (DType t : {DType::BF16, DType::F16}) {
    const Value a = sixteenths(t, {3, 70}, 1), b = sixteenths(t, {3, 70}, 2), c = sixteenths(t, {3, 70}, 3);
    const Value product = m.mul(a, b), sum = m.add(product, c), total = m.sum(m.mul(c, 1.0625), Dims{1}, true);
    const Value after = m.mul(m.add(total, a), b);
    const Value wide = m.convert(sum, DType::F32);
    for (Value v : {product, sum, wide, m.sub(wide, m.convert(c, DType::F32)), total, after,
                    m.convert(m.mul(after, after), DType::F32)})
      outputs.push_back(v);
  }
  check(outputs);
}

TEST_F(ExecutableExact, ReductionsOfNothing) {
  const Value x = given(DType::Bool, {3, 0}, {}), y = given(DType::F32, {0, 4}, {}), none = given(DType::I64, {0}, {});
  check({m.apply(Op::all, {x}, {{1}, {0}}), m.apply(Op::any, {x}, {{1}, {0}}), m.apply(Op::prod, {y}, {{0}, {0}}),
         m.sum(y, Dims{0}, false), m.apply(Op::all, {none}, {{0}, {0}}), m.sum(none, Dims{0}, false)});
}

TEST_F(ExecutableExact, TruthOfSome) {
  const Value x = given(DType::Bool, {2, 3}, {1, 1, 1, 0, 1, 0}),
              y = given(DType::F32, {2, 3}, {0, 0, 0, 0, -0.5, NAN});
  check({m.apply(Op::all, {x}, {{1}, {0}}), m.apply(Op::any, {x}, {{1}, {0}}), m.apply(Op::all, {y}, {{1}, {0}}),
         m.apply(Op::any, {y}, {{1}, {0}})});
}

TEST_F(ExecutableExact, APartOfARange) {
  const Value x = given(DType::I64, {20}, std::vector<double>(20, 1));
  const auto part = [&](int64_t start, int64_t step) {
    return m.apply(Op::slice, {iota(100)}, {{start}, {20}, {step}});
  };
  check({m.add(part(10, 1), x), m.add(part(7, 3), x), m.add(m.apply(Op::flip, {part(5, 2)}, {{0}}), x), part(30, 1)});
}

// Several vectors at a time along the columns, each with its own positions.
TEST_F(ExecutableExact, PositionsAcrossColumns) {
  const Value x = given(DType::I64, {6, 1000}, std::vector<double>(6000, 3));
  const Value floats = given(DType::F32, {6, 1000}, std::vector<double>(6000, 0.5));
  const Value at = m.reshape(iota(1000), Dims{1, 1000});
  check({m.sum(m.mul(x, at), Dims{0}, false), m.mul(x, at),
         m.sum(m.mul(floats, m.convert(at, DType::F32)), Dims{0}, false)});
}

// Planes of a table that an index chooses, each turned.
TEST_F(ExecutableExact, AnIndexBesideATransposedOperand) {
  const Value table = sixteenths(DType::F32, {3, 9, 12}), index = given(DType::I64, {5}, {2, 0, 1, 2, 1});
  const Value chosen = m.apply(Op::index_select, {table, index}, {{0}});
  const Value beside = sixteenths(DType::F32, {5, 12, 9}, 2), turned = sixteenths(DType::F32, {5, 9, 12}, 3);
  check({m.add(m.transpose(chosen), beside), m.add(m.add(m.transpose(chosen), m.transpose(turned)), beside)});
}

// A copy of what the first of two writers has left joins an earlier copy's launch, but not before that writer.
TEST_F(ExecutableExact, APartIsWrittenBeforeItIsRead) {
  const Value x = sixteenths(DType::F32, {1, 5}), number = sixteenths(DType::F32, {}, 2);
  const Value padded = m.apply(Op::pad, {x, m.constant(0.5, DType::F32)}, {{1, -1}, {1, 0}});
  const Value whole = m.apply(Op::maximum, {m.neg(m.add(padded, number)), padded});
  const Value last = m.apply(Op::slice, {whole}, {{2, 0}, {1, 4}, {1, 1}});
  const Value written = m.apply(Op::as_strided_scatter, {whole, m.add(last, 1.0)}, {{4, 1}, {8}});
  check({m.apply(Op::slice, {written}, {{1, 1}, {1, 3}, {2, 1}}), whole});
}

// A number beside tensors counts in full, and what it becomes the result of does not.
TEST_F(ExecutableExact, ANarrowResultThatIsANumber) {
  std::vector<Value> outputs;
  for (DType t : {DType::BF16, DType::F16}) {
    const Value a = sixteenths(t, {200}, 1), b = sixteenths(t, {200}, 2);
    const Value least = m.apply(Op::maximum, {a, m.constant(0.3, t)});
    outputs.insert(outputs.end(), {least, m.convert(least, DType::F32), m.mul(least, b)});
  }
  check(outputs);
}

// What no kernel writes but in the order or shape in which somebody wants it.
TEST_F(ExecutableExact, LeavesThatAreResults) {
  const Value number = run_time_number(2.5), range = iota(6);
  check({m.reshape(number, Dims{1, 1}), m.broadcast(number, Dims{2, 3}), number, m.reshape(range, Dims{2, 3}), range,
         m.reshape(m.convert(range, DType::F32), Dims{3, 2})});
}

TEST_F(ExecutableExact, LeavesThatLibrariesRead) {
  const Value x = sixteenths(DType::F32, {1, 5}), y = sixteenths(DType::F32, {3, 4}, 2);
  const Value number = m.reshape(run_time_number(2.5), Dims{1, 1});
  const Value range = m.reshape(m.convert(iota(6), DType::F32), Dims{2, 3});
  check({m.apply(Op::matmul, {number, x}), m.apply(Op::matmul, {range, y}), number});
}

}  // namespace
}  // namespace lazuli::testing
