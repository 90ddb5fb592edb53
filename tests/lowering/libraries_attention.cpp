// Attention and its gradients against the interpreter, which computes in float64.
#include <bit>
#include <cmath>
#include <limits>
#include "ir/graph.h"
#include "ir/interpret.h"
#include "lowering/libraries/attention/attention.h"
#include "lowering/threads/crew.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::expect_close;
using testing::Fenced;
using testing::layout;
using testing::Tensor;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Case {
  int64_t batch, heads, groups, queries, keys, depth, width;
  bool causal = false;
  Dims mask = {};  // none
  std::string name() const {
    return "batch " + std::to_string(batch) + ", heads " + std::to_string(heads) + "/" + std::to_string(groups) + ", " +
           std::to_string(queries) + " x " + std::to_string(keys) + ", depth " + std::to_string(depth) + ", width " +
           std::to_string(width) + (causal ? ", causal" : "") + (mask.empty() ? "" : ", masked");
  }
  Dims q() const { return {batch, queries, heads, depth}; }
  Dims k() const { return {batch, keys, groups, depth}; }
  Dims v() const { return {batch, keys, groups, width}; }
  Dims y() const { return {batch, queries, heads, width}; }
  Dims statistics() const { return {batch, heads, queries, 2}; }
  AttentionParams params() const { return {.scale = 1 / std::sqrt(static_cast<double>(depth)), .causal = causal}; }
};

Layout dense(const Dims& shape) { return layout(DType::F32, shape); }

// A case's tensors; those of operands in memory are in `order`.
struct Problem {
  Case c;
  Tensor q, k, v, mask, gy, y, statistics, gq, gk, gv;
  explicit Problem(const Case& of, std::vector<size_t> order = {}, int64_t padding = 0)
      : c(of),
        q(random(c.q(), order, padding, 1)),
        k(random(c.k(), order, padding, 2)),
        v(random(c.v(), order, padding, 3)),
        mask(random(c.mask.empty() ? Dims{1, 1, 1, 1} : c.mask, {}, 0, 4)),
        gy(random(c.y(), order, padding, 5)),
        y(dense(c.y())),
        statistics(dense(c.statistics())),
        gq(dense(c.q())),
        gk(dense(c.k())),
        gv(dense(c.v())) {}

  AttentionOperands operands() const { return {q.layout, k.layout, v.layout, c.mask.empty() ? nullptr : &mask.layout}; }
  std::unique_ptr<LibraryCall> forward() const {
    return make_attention(operands(), y.layout, statistics.layout, c.params());
  }
  std::unique_ptr<LibraryCall> backward() const {
    return make_attention_backward(gy.layout, operands(), y.layout, statistics.layout,
                                   {gq.layout, gk.layout, gv.layout}, c.params());
  }
  void run() {
    testing::run(*forward(), {&q, &k, &v, &mask}, {&y, &statistics});
    testing::run(*backward(), {&gy, &q, &k, &v, &y, &statistics, &mask}, {&gq, &gk, &gv});
  }
  std::vector<const Tensor*> results() const { return {&y, &statistics, &gq, &gk, &gv}; }

 private:
  static Tensor random(const Dims& shape, const std::vector<size_t>& order, int64_t padding, uint32_t seed) {
    return Tensor::random(layout(DType::F32, shape, order, padding), seed, -2, 2);
  }
};

ir::Tensor in_f64(const Tensor& t) {
  ir::Tensor out({DType::F64, t.layout.shape});
  int64_t i = 0;
  t.each([&](const Dims& at) { out.set(i++, t.get(at)); });
  return out;
}

// Results of these shapes.
std::vector<ir::Tensor> interpret(ir::Op op, const Problem& p, const std::vector<ir::Tensor>& operands,
                                  const std::vector<Dims>& results) {
  ir::Node node{.op = op,
                .inputs = {},
                .attrs = ir::Attrs{{std::bit_cast<int64_t>(p.c.params().scale)}, {p.c.causal}},
                .types = {}};
  for (const Dims& shape : results) node.types.push_back({DType::F64, shape});
  std::vector<const ir::Tensor*> in;
  for (const ir::Tensor& t : operands) in.push_back(&t);
  const ir::Tensor mask = in_f64(p.mask);
  in.push_back(p.c.mask.empty() ? nullptr : &mask);
  return ir::interpret_node(node, in);
}
std::vector<ir::Tensor> interpret_forward(const Problem& p) {
  return interpret(ir::Op::attention, p, {in_f64(p.q), in_f64(p.k), in_f64(p.v)}, {p.c.y(), p.c.statistics()});
}

void expect_equal(const Tensor& actual, const ir::Tensor& expected, double scale, const std::string& what) {
  const Dims strides = ir::contiguous_strides(actual.layout.shape);
  expect_close(
      actual,
      [&](const Dims& at) {
        return expected.at(std::inner_product(at.begin(), at.end(), strides.begin(), int64_t{0}));
      },
      scale, what);
}

// `size`: of operands, about.
void check(const Case& c, const std::function<void(Problem&)>& prepare = {}, std::vector<size_t> order = {},
           int64_t padding = 0, double size = 1) {
  SCOPED_TRACE(c.name());
  Problem p(c, std::move(order), padding);
  if (prepare) prepare(p);
  p.run();
  const auto forward = interpret_forward(p);
  expect_equal(p.y, forward[0], 2, "y");
  expect_equal(p.statistics, forward[1], 4, "statistics");
  const auto backward =
      interpret(ir::Op::attention_backward, p,
                {in_f64(p.gy), in_f64(p.q), in_f64(p.k), in_f64(p.v), forward[0], forward[1]}, {c.q(), c.k(), c.v()});
  const double terms = std::sqrt(static_cast<double>(c.queries * (c.heads / c.groups)));
  expect_equal(p.gq, backward[0], 8 * size, "gq");
  expect_equal(p.gk, backward[1], 8 + terms, "gk");
  expect_equal(p.gv, backward[2], 8 + terms, "gv");
}

// Sizes within one tile and beyond it, of lanes and of register blocks and not, few queries and many.
TEST(LibrariesAttention, Sizes) {
  for (const Case& c : {Case{2, 3, 3, 40, 40, 16, 16}, Case{1, 2, 2, 64, 64, 64, 64}, Case{2, 1, 1, 7, 5, 3, 2},
                        Case{1, 1, 1, 1, 1, 1, 1}, Case{1, 2, 2, 33, 47, 20, 12}, Case{1, 1, 1, 75, 700, 8, 24},
                        Case{1, 1, 1, 500, 130, 5, 8}, Case{1, 2, 2, 13, 17, 40, 7}})
    check(c);
}

TEST(LibrariesAttention, FewQueries) {
  for (int64_t queries : {1, 2, 4})
    for (bool causal : {false, true}) check({2, 4, 2, queries, 45, 24, 20, causal});
}

TEST(LibrariesAttention, CausalAndOtherLengths) {
  for (const Case& c : {Case{1, 2, 2, 100, 100, 16, 16, true}, Case{1, 2, 2, 20, 90, 16, 16, true},
                        Case{2, 1, 1, 90, 20, 16, 16, true}, Case{1, 1, 1, 400, 400, 16, 16, true}})
    check(c);
}

TEST(LibrariesAttention, Masks) {
  for (const Dims& mask :
       {Dims{2, 4, 50, 70}, Dims{1, 4, 50, 70}, Dims{2, 1, 1, 70}, Dims{1, 1, 50, 1}, Dims{1, 1, 1, 1}})
    for (bool causal : {false, true}) check({2, 4, 4, 50, 70, 16, 16, causal, mask});
  check({1, 2, 2, 3, 70, 16, 16, false, {1, 2, 3, 70}});
  check({1, 1, 1, 70, 650, 16, 16, false, {1, 1, 70, 650}});
}

// Where all keys are masked there is nothing to attend to: zeros, and no gradient. Keys that are masked have none
// either.
TEST(LibrariesAttention, MaskedRowsAndKeys) {
  for (int64_t queries : {2, 50})
    for (int64_t keys : {70, 650})
      check({1, 2, 2, queries, keys, 16, 16, false, {1, 2, queries, keys}}, [](Problem& p) {
        p.mask.each([&](const Dims& at) {
          if (at[2] == 1 || at[3] < 9 || (at[1] == 1 && at[3] > 40)) p.mask.set(at, -kInfinity);
        });
      });
}

// Scores of thousands neither overflow nor lose the sum when a larger one comes late, and makes the others'
// exponentials vanish.
TEST(LibrariesAttention, LargeScores) {
  const auto prepare = [](Problem& p) {
    p.q.each([&](const Dims& at) { p.q.set(at, 0.5 + static_cast<double>(at[3]) / 16); });
    p.k.each([&](const Dims& at) { p.k.set(at, at[1] == 600 ? 3000 : p.k.get(at) * (at[1] > 500 ? 50 : 1)); });
  };
  check({1, 1, 1, 20, 650, 8, 8}, prepare, {}, 0, 3000);
}

// A mask of the least float leaves nothing of the scores beside it, in float64 neither: where it is everywhere all keys
// count alike.
TEST(LibrariesAttention, MasksOfTheLeastFloat) {
  for (int64_t queries : {2, 50})
    check({1, 1, 1, queries, 70, 16, 16, false, {1, 1, queries, 70}}, [](Problem& p) {
      p.mask.each(
          [&](const Dims& at) { p.mask.set(at, at[2] == 1 || at[3] > 50 ? std::numeric_limits<float>::lowest() : 0); });
    });
}

TEST(LibrariesAttention, NanReachesItsRowsAlone) {
  Problem p({1, 1, 1, 30, 40, 16, 16});
  for (int64_t d = 0; d < 16; ++d) p.q.set({0, 3, 0, d}, std::nan(""));
  p.run();
  p.y.each([&](const Dims& at) { ASSERT_EQ(std::isnan(p.y.get(at)), at[1] == 3); });
}

TEST(LibrariesAttention, HeadsThatShareKeys) {
  for (const Case& c :
       {Case{2, 6, 2, 30, 40, 16, 16}, Case{1, 4, 1, 90, 200, 16, 24, true}, Case{1, 4, 1, 600, 600, 8, 8, true}})
    check(c);
}

// Few heads and many keys: these are cut in parts, whose gradients of queries are added up.
TEST(LibrariesAttention, PartsOfKeys) {
  for (bool causal : {false, true}) check({1, 1, 1, 700, 700, 16, 16, causal});
}

TEST(LibrariesAttention, StridedOperands) {
  check({2, 3, 3, 21, 21, 16, 16}, {}, {2, 0, 1, 3}, 5);
  check({2, 3, 3, 21, 21, 16, 16}, {}, {0, 2, 1, 3}, 16);
}

TEST(LibrariesAttention, BitsOnAnyNumberOfThreads) {
  for (const Case& c :
       {Case{1, 3, 3, 300, 300, 32, 32, true}, Case{1, 1, 1, 600, 600, 16, 16}, Case{3, 4, 2, 60, 60, 32, 32}}) {
    std::vector<Problem> first;
    for (int threads : {1, 2, 5}) {
      const Threads some(threads);
      Problem p(c);
      const auto forward = p.forward(), backward = p.backward();
      const Threads others(6);  // when it runs; scratch is for those when it was made
      testing::run(*forward, {&p.q, &p.k, &p.v, &p.mask}, {&p.y, &p.statistics});
      testing::run(*backward, {&p.gy, &p.q, &p.k, &p.v, &p.y, &p.statistics, &p.mask}, {&p.gq, &p.gk, &p.gv});
      if (first.empty()) {
        first.push_back(std::move(p));
        continue;
      }
      for (size_t r = 0; r < p.results().size(); ++r)
        p.results()[r]->each([&](const Dims& at) {
          ASSERT_EQ(p.results()[r]->get(at), first[0].results()[r]->get(at)) << c.name() << ", " << r;
        });
    }
  }
}

// Operands that end at a page which nobody may read.
TEST(LibrariesAttention, ReadsNothingBehindOperands) {
  for (const Case& c : {Case{1, 1, 1, 33, 47, 20, 12, false, {1, 1, 33, 47}}, Case{1, 1, 1, 5, 9, 8, 24},
                        Case{1, 1, 1, 2, 9, 5, 5, false, {1, 1, 1, 9}}, Case{1, 1, 1, 40, 330, 16, 16}}) {
    Problem p(c);
    p.run();
    const Fenced q(p.q), k(p.k), v(p.v), mask(p.mask), gy(p.gy), y(p.y), statistics(p.statistics);
    const auto run = [](LibraryCall& call, std::vector<const void*> operands, std::vector<void*> results) {
      std::vector<float> scratch(call.scratch_bytes() / sizeof(float) + 32);
      call.run(operands.data(), results.data(), scratch.data());
    };
    Problem again(c);
    run(*p.forward(), {q.data(), k.data(), v.data(), mask.data()}, {again.y.data(), again.statistics.data()});
    run(*p.backward(), {gy.data(), q.data(), k.data(), v.data(), y.data(), statistics.data(), mask.data()},
        {again.gq.data(), again.gk.data(), again.gv.data()});
    for (size_t r = 0; r < p.results().size(); ++r)
      p.results()[r]->each(
          [&](const Dims& at) { ASSERT_EQ(p.results()[r]->get(at), again.results()[r]->get(at)) << c.name(); });
  }
}

TEST(LibrariesAttention, RefusesOtherTypes) {
  Problem p({1, 1, 1, 3, 3, 4, 4});
  AttentionOperands in = p.operands();
  in.q.dtype = DType::F64;
  EXPECT_THROW(make_attention(in, p.y.layout, p.statistics.layout, p.c.params()), TypeError);
}

}  // namespace
}  // namespace lazuli::lowering
