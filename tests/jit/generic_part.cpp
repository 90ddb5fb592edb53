// Parts planned for some sizes serve others, and compute what a plan made for those does.
#include "jit/parts/generic_part.h"
#include "jit/parts/part_cache.h"
#include "lowering/plan/generic_plan.h"
#include "tests/ir/recorded.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;
using ir::testing::no_lines;
using ir::testing::Recorded;
using Sizes = std::vector<int64_t>;

struct Case {
  const char* name;
  void (*write)(Model& m, int64_t n, int64_t k);
};

void out(Model& m, Value v) { m.graph.outputs.push_back(v); }

// clang-format off
const Case kCases[] = {
    {"elementwise", [](Model& m, int64_t n, int64_t k) {
       out(m, m.apply(Op::tanh, {m.apply(Op::add, {m.input({n, k}), m.input({k})})}));
     }},
    {"columns beside rows", [](Model& m, int64_t n, int64_t k) {
       const Value x = m.input({n, k});
       out(m, m.apply(Op::mul, {x, m.input({n, 1})}));
       out(m, m.sum(x, ir::Dims{0}, false));
     }},
    {"softmax", [](Model& m, int64_t n, int64_t k) { out(m, m.apply(Op::softmax, {m.input({n, k})}, {{1}})); }},
    {"mean of everything", [](Model& m, int64_t n, int64_t k) {
       const Value x = m.input({n, k});
       out(m, m.sub(x, m.mean(x, ir::Dims{0, 1}, true)));
     }},
    {"layer norm", [](Model& m, int64_t n, int64_t k) {
       const Value x = m.input({n, k}), w = m.input({k}), b = m.input({k}), eps = m.constant(1e-5, DType::F32);
       out(m, m.apply(Op::layer_norm, {x, w, b, eps}, {{1}}));
     }},
    {"linear", [](Model& m, int64_t n, int64_t k) {
       const Value y = m.apply(Op::matmul, {m.input({n, k}), m.transpose(m.input({24, k}))});
       out(m, m.apply(Op::relu, {m.apply(Op::add, {y, m.input({24})})}));
     }},
    {"attention", [](Model& m, int64_t n, int64_t k) {
       const auto heads = [&](Value x) { return m.permute(m.reshape(x, ir::Dims{n, 4, 8}), ir::Dims{1, 0, 2}); };
       const Value q = heads(m.input({n, 32})), v = heads(m.input({n, 32}));
       const Value keys = m.transpose(heads(m.input({n, 32})));
       const Value scores = m.apply(Op::softmax, {m.apply(Op::matmul, {q, keys})}, {{2}});
       out(m, m.reshape(m.permute(m.apply(Op::matmul, {scores, v}), ir::Dims{1, 0, 2}), ir::Dims{n, 32}));
       out(m, m.neg(m.input({k})));
     }},
    {"windows", [](Model& m, int64_t n, int64_t k) {
       const Value x = m.input({n + 2, k + 3});
       out(m, m.apply(Op::exp, {m.apply(Op::slice, {x}, {{1, 2}, {n, k}, {1, 1}})}));
       out(m, m.apply(Op::flip, {x}, {{1}}));
       out(m, m.apply(Op::as_strided, {m.reshape(x, ir::Dims{(n + 2) * (k + 3)})}, {{n, k}, {k + 3, 1}, {k + 3}}));
     }},
    {"written windows", [](Model& m, int64_t n, int64_t k) {
       const Value base = m.reshape(m.input({n + 2, k}), ir::Dims{(n + 2) * k});
       out(m, m.apply(Op::as_strided_scatter, {base, m.input({n, k})}, {{k, 1}, {k}}));
     }},
    {"concatenation", [](Model& m, int64_t n, int64_t k) {
       const Value a = m.input({n, k}), b = m.input({3, k});
       out(m, m.apply(Op::cat, {m.apply(Op::neg, {a}), b, a}, {{0}}));
     }},
    {"padding", [](Model& m, int64_t n, int64_t k) {
       out(m, m.apply(Op::pad, {m.input({n, k}), m.constant(2, DType::F32)}, {{1, 0}, {n, 2}}));
     }},
    {"positions", [](Model& m, int64_t n, int64_t k) {
       const Value at = m.reshape(m.convert(m.apply(Op::iota, {}, {{n}}), DType::F32), ir::Dims{n, 1});
       out(m, m.apply(Op::add, {m.input({n, k}), at}));
     }},
    {"rows by index", [](Model& m, int64_t n, int64_t k) {
       const Value turn = m.broadcast(m.constant(n, DType::I64), ir::Dims{2 * n});
       const Value rows = m.apply(Op::remainder, {m.apply(Op::iota, {}, {{2 * n}}), turn});
       out(m, m.apply(Op::index_select, {m.input({n, k}), rows}, {{0}}));
     }},
    {"running sums", [](Model& m, int64_t n, int64_t k) { out(m, m.apply(Op::cumsum, {m.input({n, k})}, {{0}})); }},
    {"convolution", [](Model& m, int64_t n, int64_t k) {
       const Value y = m.apply(Op::convolution, {m.input({2, 3, n + 3, k + 3}), m.input({5, 3, 3, 3})},
                               {{1, 1}, {1, 1}, {1, 1}, {0}, {0, 0}, {1}});
       out(m, m.apply(Op::relu, {y}));
     }},
    {"variance", [](Model& m, int64_t n, int64_t k) {
       out(m, m.apply(Op::var, {m.input({n + 1, k}), m.constant(1, DType::F32)}, {{0}, {0}}));
     }},
    {"a loop's carry", [](Model& m, int64_t n, int64_t k) {
       Value x = m.input({n, k});
       for (int i = 0; i < 4; ++i) x = m.apply(Op::sigmoid, {m.apply(Op::add, {x, m.mean(x, ir::Dims{1}, true)})});
       out(m, x);
     }},
};
// clang-format on

jit::CompileStats expect_same(jit::PartCache& cache, const ir::Graph& graph) {
  TestHost host;
  const Recorded recorded(graph);
  auto alone = jit::compile(graph, {}), shared = cache.compile(recorded.listing(), recorded.live(), {}, {}, no_lines);
  const auto in = inputs_of(host, graph);
  const Ran want = run(*alone, host, graph, in), got = run(*shared, host, graph, in);
  for (size_t i = 0; i < want.floats.size(); ++i) expect_close(got.floats[i], want.floats[i], 1e-5f);
  return shared->stats();
}

// Sizes that are one, equal, and multiples of vectors and of each other among them.
const Sizes kSizes[] = {{5, 7}, {9, 7}, {9, 12}, {33, 40}, {16, 64}, {7, 7},
                        {1, 9}, {9, 1}, {1, 1},  {64, 16}, {130, 3}, {300, 257}};

TEST(GenericPart, OtherSizes) {
  for (const Case& c : kCases) {
    SCOPED_TRACE(c.name);
    jit::PartCache cache;
    int64_t made = 0, resized = 0;
    for (const Sizes& s : kSizes) {
      SCOPED_TRACE(std::to_string(s[0]) + " x " + std::to_string(s[1]));
      Model m;
      c.write(m, s[0], s[1]);
      const jit::CompileStats stats = expect_same(cache, m.graph);
      made += stats.new_parts;
      resized += stats.resized_parts;
      if (::testing::Test::HasFatalFailure()) return;
    }
    EXPECT_GT(resized, 0) << made << " were made anew";
  }
}

// However its numbers change from one time to the next.
TEST(GenericPart, InAnyOrder) {
  for (uint32_t seed = 0; seed < 6; ++seed) {
    std::mt19937 random(seed);
    for (const Case& c : kCases) {
      SCOPED_TRACE(c.name);
      jit::PartCache cache;
      for (int i = 0; i < 8; ++i) {
        Model m;
        const int64_t n = 1 + random() % 20, k = random() % 3 ? 1 + random() % 20 : n;
        SCOPED_TRACE(std::to_string(n) + " x " + std::to_string(k));
        c.write(m, n, k);
        expect_same(cache, m.graph);
        if (::testing::Test::HasFailure()) return;
      }
    }
  }
}

TEST(GenericPart, ASequenceOfSizesNeedsFewPlans) {
  jit::PartCache cache;
  int64_t made = 0, resized = 0;
  for (int64_t n = 20; n < 60; ++n) {
    Model m;
    const Value x = m.input({n, 24});
    out(m, m.apply(Op::gelu_tanh, {m.apply(Op::matmul, {x, m.input({24, 8})})}));
    const jit::CompileStats stats = expect_same(cache, m.graph);
    made += stats.new_parts;
    resized += stats.resized_parts;
  }
  EXPECT_LE(made, 4) << "for the first sizes, and then for ranges of them";
  EXPECT_EQ(made + resized, 40);
}

// A sequence is read once, and then a step at a time: the plan for any number of rows is not the one for few.
TEST(GenericPart, FewRowsTimesWeightsOfFewBitsAreASum) {
  jit::PartCache cache;
  int64_t made = 0;
  for (int64_t rows : {40, 16, 1, 24, 2, 60, 3}) {
    SCOPED_TRACE(rows);
    Model m;
    const Value x = m.input({rows, 320}), weights = m.convert(m.input(DType::I8, {256, 320}), DType::F32);
    out(m, m.apply(Op::tanh, {m.apply(Op::matmul, {x, m.transpose(weights)})}));
    const jit::CompileStats stats = expect_same(cache, m.graph);
    EXPECT_EQ(stats.library_calls, rows > 4);
    made += stats.new_parts;
  }
  EXPECT_EQ(made, 5) << "for the first sizes, for any number of many rows, and for each of few";
}

TEST(GenericPart, AreForgottenInTime) {
  jit::PartCache cache;
  cache.set_limit(6);
  for (int64_t columns = 10; columns < 40; ++columns)
    for (int64_t n : {20, 21, 22, 23}) {
      Model m;
      Value x = m.input({n, 24});
      for (int64_t i = 0; i < columns % 7; ++i) x = m.neg(m.apply(Op::exp, {x}));  // another code
      out(m, m.apply(Op::tanh, {m.apply(Op::matmul, {x, m.input({24, columns})})}));
      expect_same(cache, m.graph);
      EXPECT_LE(cache.size(), 6u);
      EXPECT_LE(cache.generic_plans(), 6u);
    }
  EXPECT_GT(cache.generic_plans(), 0u);
}

// As text: a number's symbol, * and the first of the two that it is the product of, or = for a constant.
std::string meanings(const jit::SeenNumbers& seen) {
  std::string text;
  for (const auto [kind, index] : seen.meanings())
    text += (text.empty() ? "" : " ") +
            (kind == jit::SeenNumbers::Meaning::Constant
                 ? "="
                 : (kind == jit::SeenNumbers::Meaning::Product ? "*" : "s") + std::to_string(index));
  return text;
}

TEST(GenericPart, KnowsWhatMayChangeFromWhatDid) {
  jit::SeenNumbers seen;
  EXPECT_TRUE(seen.empty());
  seen.see(Sizes{5, 5, 64, 5});
  EXPECT_EQ(meanings(seen), "= = = =");
  seen.see(Sizes{7, 7, 64, 5});
  EXPECT_EQ(meanings(seen), "s0 s0 = =");
  seen.see(Sizes{7, 8, 64, 5});
  EXPECT_EQ(meanings(seen), "s0 s1 = =");
  seen.see(Sizes{7, 8, 32, 5});
  EXPECT_EQ(meanings(seen), "s0 s1 s2 =");
}

TEST(GenericPart, KnowsWhatIsAProduct) {
  jit::SeenNumbers seen;
  seen.see(Sizes{2, 3, 64, 6, 192, 384});
  EXPECT_EQ(meanings(seen), "= = = = = =");
  seen.see(Sizes{1, 5, 64, 5, 320, 320});
  EXPECT_EQ(meanings(seen), "s0 s1 = *0 *1 *2");
  seen.see(Sizes{3, 5, 64, 15, 320, 961});  // one more than the product
  EXPECT_EQ(meanings(seen), "s0 s1 = *0 *1 s2");
  jit::SeenNumbers large;
  large.see(Sizes{INT64_MAX, 2, -2});
  large.see(Sizes{INT64_MAX, 3, 5});
  EXPECT_EQ(meanings(large), "= s0 s1") << "what wraps is no product";
}

TEST(GenericPart, AProductByChance) {
  jit::PartCache cache;
  for (const Sizes& s : std::vector<Sizes>{{2, 3, 6}, {4, 5, 20}, {7, 2, 14}, {3, 3, 10}, {3, 4, 12}, {5, 5, 24}}) {
    Model m;
    out(m, m.neg(m.input({s[0], s[1]})));
    out(m, m.apply(Op::exp, {m.input({s[2]})}));
    expect_same(cache, m.graph);
  }
}

// Packed sequences are cut into pieces of so many steps of so many sequences, one of each among them.
TEST(GenericPart, PiecesOfAnyNumberOfRowsNeedFewPlans) {
  std::mt19937 random(0);
  jit::PartCache cache;
  int64_t made = 0;
  for (int round = 0; round < 40; ++round) {
    Model m;
    const Value x = m.input({16, 40, 8});
    std::vector<Value> pieces;
    for (int64_t at = 0, rows = 16, piece = 0; piece < 4; ++piece) {
      const int64_t steps = 1 + random() % 5;
      const Value own = m.apply(Op::slice, {x}, {{0, at, 0}, {rows, steps, 8}, {1, 1, 1}});
      pieces.push_back(m.reshape(m.permute(own, ir::Dims{1, 0, 2}), ir::Dims{steps * rows, 8}));
      at += steps;
      rows -= 1 + random() % 3;
    }
    out(m, m.apply(Op::exp, {m.emit(Op::cat, pieces, {{0}})}));
    const jit::CompileStats stats = expect_same(cache, m.graph);
    if (round >= 20) made += stats.new_parts;
  }
  EXPECT_LE(made, 3);
}

TEST(GenericPart, OddConstants) {
  jit::PartCache cache;
  for (int64_t n : {5, 6, 7, 8}) {
    Model m;
    const int64_t odd = static_cast<int64_t>(ir::Size::of_expression(static_cast<uint32_t>(n)).bits());
    const ir::Type type{DType::I64, {}};
    const Value number = m.emit(Op::constant, {}, ir::Attrs{{odd}}, std::span(&type, 1));
    out(m, m.convert(m.apply(Op::remainder, {m.apply(Op::iota, {}, {{n}}), number}), DType::F32));
    expect_same(cache, m.graph);
  }
}

// Integers are multiplied by code of ours, which packs them first.
TEST(GenericPart, OtherNumbersMakeADraftAgain) {
  lowering::PlannedGraph draft;
  Model m;
  out(m, m.apply(Op::matmul, {m.input(DType::I64, {40, 30}), m.input(DType::I64, {30, 20})}));
  draft.graph = m.graph;
  draft.plan = lowering::draft_plan(draft.graph, {});
  lowering::NumberedGraph numbered(draft, {});
  lowering::finish_plan(numbered.graph, {}, numbered.plan);
  const size_t blocks = numbered.plan.blocks.size();
  EXPECT_GT(blocks, draft.plan.blocks.size());
  for (int i = 0; i < 2; ++i) {
    numbered.put({});
    EXPECT_EQ(numbered.plan.blocks.size(), draft.plan.blocks.size());
    for (const lowering::PlanStep& step : numbered.plan.steps) EXPECT_EQ(step.scratch, lowering::kNoBlock);
    lowering::finish_plan(numbered.graph, {}, numbered.plan);
    EXPECT_EQ(numbered.plan.blocks.size(), blocks);
  }
}

}  // namespace
}  // namespace lazuli::testing
