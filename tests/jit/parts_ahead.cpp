// What is made of a listing while it grows changes no result, whatever comes after.
#include "jit/parts/parts_ahead.h"
#include "tests/ir/recorded.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;
using ir::testing::no_lines;
using ir::testing::Recorded;
using jit::PartsAhead;

constexpr int64_t kWidth = 6;

struct Case {
  int64_t layers = 6, rows = 3;
  bool keep_states = false;  // somebody holds what each layer gives
  bool read_first = false;   // the last layer reads the first one's result once more
  bool all_read_first = false;
  bool keep_inner = false;  // somebody holds what the first layer computes on the way
};

// A chain of layers with weights of their own, whose results are added up.
ir::Graph chain(const Case& c) {
  Model m;
  auto x = m.input({c.rows, kWidth}), first = ir::Value{};
  for (int64_t i = 0; i < c.layers; ++i) {
    const auto product = m.apply(Op::matmul, {x, m.input({kWidth, kWidth})});
    const auto inner = m.apply(Op::tanh, {product});
    x = m.apply(Op::add, {inner, x});
    if (c.keep_inner && i == 0) m.graph.outputs.push_back(inner);
    if (c.all_read_first && first) x = m.apply(Op::mul, {x, first});
    if (!first) first = x;
    if (c.keep_states) m.graph.outputs.push_back(x);
  }
  if (c.read_first) x = m.apply(Op::mul, {x, first});
  m.graph.outputs.push_back(m.apply(Op::exp, {x}));
  return m.graph;
}

PartsAhead::Input lent(const jit::Buffer& b) { return {{b.data, b.bytes, {}}, b.owner}; }

// All of a listing at once, with these inputs.
PartsAhead::Recorded whole(const ir::Listing& all, const std::vector<jit::Buffer>& inputs) {
  const auto copy = [](auto list) { return std::vector(list.begin(), list.end()); };
  PartsAhead::Recorded r{copy(all.entries), copy(all.all_operands), copy(all.all_attrs), all.types, {}, {}, {}, {}};
  for (const jit::Buffer& b : inputs) r.inputs.push_back(lent(b));
  return r;
}

class Run {
 public:
  Run(jit::PartCache& cache, const ir::Graph& graph) : cache_(cache), graph_(graph), recorded_(graph) {}

  // As it would be without any of this.
  Ran alone() {
    jit::PartCache own;
    auto executable = own.compile(recorded_.listing(), recorded_.live(), graph_.donated, {}, no_lines);
    return run(*executable, host_, graph_, inputs_of(host_, graph_));
  }

  // Hands over the first `entries` entries, a few at a time, and works on them; then runs all of it.
  Ran ahead(size_t entries, size_t chunk = 3) {
    const auto inputs = inputs_of(host_, graph_);
    PartsAhead ahead(cache_, {}, no_lines);
    const ir::Listing all = recorded_.listing();
    for (size_t begin = 0, end; begin < std::min(entries, all.entries.size()); begin = end) {
      end = std::min(begin + chunk, all.entries.size());
      hand_over(ahead, all, begin, end, inputs);
      while (ahead.step(host_)) {}
    }
    runs = ahead.runs();
    auto executable = cache_.compile(all, recorded_.live(), graph_.donated, {}, no_lines, &ahead);
    taken = executable->stats().parts_ahead;
    return run(*executable, host_, graph_, inputs);
  }

  int64_t runs = 0, taken = 0;
  int64_t memory() const { return host_.live; }

 private:
  static void hand_over(PartsAhead& ahead, const ir::Listing& all, size_t begin, size_t end,
                        const std::vector<jit::Buffer>& inputs) {
    PartsAhead::Recorded more;
    const auto take = [](auto& to, auto list, size_t first, size_t last) {
      to.assign(list.begin() + static_cast<ptrdiff_t>(first), list.begin() + static_cast<ptrdiff_t>(last));
    };
    const ir::Entry &b = all.entries[begin], &e = all.entries[end - 1];
    take(more.entries, all.entries, begin, end);
    take(more.operands, all.all_operands, b.operand_begin, e.operand_begin + e.operand_count);
    take(more.attrs, all.all_attrs, b.attr_begin, e.attr_begin + e.attr_count);
    for (ir::ValueId v = b.first_result; v < e.first_result + e.results; ++v) more.types.push_back(all.types[v]);
    for (const ir::Entry& entry : more.entries)
      if (entry.op == Op::input) more.inputs.push_back(lent(inputs[static_cast<size_t>(all.attrs(entry)[1])]));
    ahead.append(more);
  }

  jit::PartCache& cache_;
  const ir::Graph& graph_;
  Recorded recorded_;
  TestHost host_;
};

void expect_same(jit::PartCache& cache, const Case& c, size_t entries, int64_t least, int64_t most) {
  const ir::Graph graph = chain(c);
  Run r(cache, graph);
  {
    const Ran want = r.alone(), got = r.ahead(entries);
    EXPECT_EQ(got.floats, want.floats);
  }
  EXPECT_GE(r.taken, least);
  EXPECT_LE(r.taken, most);
  EXPECT_EQ(r.memory(), 0);
}

constexpr size_t kAll = SIZE_MAX;

// How many parts of all of the graph were taken from what ran ahead, which changed no bit.
int64_t taken_of(jit::PartCache& cache, const ir::Graph& graph) {
  Run r(cache, graph);
  const Ran want = r.alone(), got = r.ahead(kAll);
  EXPECT_EQ(got.floats, want.floats);
  return r.taken;
}

TEST(PartsAhead, NothingIsExpectedAtFirst) {
  jit::PartCache cache;
  expect_same(cache, {}, kAll, 0, 0);
}

TEST(PartsAhead, RunWhatIsThere) {
  jit::PartCache cache;
  expect_same(cache, {}, 0, 0, 0);
  expect_same(cache, {}, kAll, 5, 5);  // whose ends are known
  for (size_t entries = 0; entries < 24; ++entries) expect_same(cache, {}, entries, 0, 5);
}

TEST(PartsAhead, OtherSizes) {
  jit::PartCache cache;
  for (int64_t rows : {3, 4, 7, 1, 12, 3}) expect_same(cache, {.rows = rows}, kAll, rows == 3 ? 0 : 5, 5);
}

TEST(PartsAhead, OtherLengths) {
  jit::PartCache cache;
  expect_same(cache, {}, kAll, 0, 0);
  expect_same(cache, {.layers = 9}, kAll, 4, 8);
  expect_same(cache, {.layers = 3}, kAll, 1, 2);
  expect_same(cache, {.layers = 12}, kAll, 4, 11);
}

// Values that were let go of, or written over, are wanted this time. Little ones are not let go of.
constexpr int64_t kManyRows = 1000;

TEST(PartsAhead, WhatIsKeptThisTime) {
  for (int64_t rows : {int64_t{3}, kManyRows}) {
    jit::PartCache cache;
    expect_same(cache, {.rows = rows}, kAll, 0, 0);
    expect_same(cache, {.rows = rows}, kAll, 5, 5);
    expect_same(cache, {.rows = rows, .keep_states = true}, kAll, 0, 5);
    expect_same(cache, {.rows = rows, .keep_states = true}, kAll, 0, 5);
    expect_same(cache, {.rows = rows, .keep_states = true}, kAll, 5, 5);
    expect_same(cache, {.rows = rows}, kAll, 0, 5);
  }
}

TEST(PartsAhead, WhatIsReadOnceMore) {
  for (int64_t rows : {int64_t{3}, kManyRows}) {
    jit::PartCache cache;
    expect_same(cache, {.rows = rows}, kAll, 0, 0);
    expect_same(cache, {.rows = rows}, kAll, 5, 5);
    expect_same(cache, {.rows = rows, .read_first = true}, kAll, 0, 5);
    expect_same(cache, {.rows = rows}, kAll, 0, 5);
  }
}

// A kernel that stores what another one keeps in registers may round otherwise: what was computed from the first part's
// values is not what would be computed from those of the part that turns out to be there.
TEST(PartsAhead, WhatWasComputedFromOtherValues) {
  jit::PartCache cache;
  expect_same(cache, {}, kAll, 0, 0);
  expect_same(cache, {}, kAll, 5, 5);
  expect_same(cache, {.keep_inner = true}, kAll, 0, 0);
  expect_same(cache, {}, kAll, 0, 5);
}

// A little value that was let go of after fewer turns is still there.
TEST(PartsAhead, MoreTurnsThanBefore) {
  jit::PartCache cache;
  for (int i = 0; i < 3; ++i) expect_same(cache, {.layers = 5, .all_read_first = true}, kAll, i ? 4 : 0, 4);
  expect_same(cache, {.layers = 12, .all_read_first = true}, kAll, 11, 11);
}

// What is wanted this time is computed as what was wanted before, but from another number.
TEST(PartsAhead, WhatElseIsWantedThisTime) {
  jit::PartCache cache;
  int64_t taken = 0;
  for (bool second : {false, false, true, true, false}) {
    Model m;
    const auto x = m.apply(Op::matmul, {m.input({3, kWidth}), m.input({kWidth, kWidth})});
    const auto a = m.mul(x, 2), b = m.mul(x, 3);
    m.graph.outputs = {m.apply(Op::matmul, {second ? b : a, m.input({kWidth, kWidth})})};
    lazuli::testing::Run r(cache, m.graph);
    const Ran want = r.alone(), got = r.ahead(kAll);
    EXPECT_EQ(got.floats, want.floats);
    taken += r.taken;
  }
  EXPECT_GT(taken, 0);
}

// `count` rows are put together, computed with, and taken apart by views that are recorded at once.
ir::Graph gathered(int64_t count) {
  Model m;
  std::vector<ir::Value> rows, apart;
  for (int64_t i = 0; i < count; ++i) rows.push_back(m.input({1, kWidth}));
  auto all = m.apply(Op::exp, {m.emit(Op::cat, rows, {{0}})}), x = m.apply(Op::tanh, {all});
  for (int64_t i = 0; i < count; ++i) apart.push_back(m.apply(Op::slice, {x}, {{i, 0}, {1, kWidth}, {1, 1}}));
  for (int layer = 0; layer < 4; ++layer) {
    const auto product = m.apply(Op::matmul, {x, m.input({kWidth, kWidth})});
    x = m.apply(Op::add, {m.apply(Op::tanh, {product}), x});
  }
  for (ir::Value row : apart) x = m.apply(Op::add, {x, row});
  m.graph.outputs.push_back(x);
  return m.graph;
}

// How many values come together changes nothing else: what is behind them runs ahead.
TEST(PartsAhead, AsManyValuesAsThereAre) {
  jit::PartCache cache;
  const auto taken = [&](int64_t count) { return taken_of(cache, gathered(count)); };
  EXPECT_EQ(taken(6), 1) << "what gathers is certain";
  EXPECT_EQ(taken(6), 5) << "that, what follows it, and layers whose ends are known";
  for (int64_t count : {9, 5, 17}) EXPECT_EQ(taken(count), 5) << count;
  EXPECT_EQ(taken(4), 0) << "few operands stay with what reads them";
}

constexpr int64_t kRows = 20000;  // too many to be copied before it is known that nobody needs the old ones

// A row is put behind the first `length` ones of an input, which is donated, and the others are read.
ir::Graph growing(int64_t length) {
  Model m;
  const auto memory = m.input({kRows * kWidth});
  auto row = m.apply(Op::matmul, {m.input({1, kWidth}), m.input({kWidth, kWidth})});
  const auto grown =
      m.apply(Op::as_strided_scatter, {memory, m.apply(Op::tanh, {row})}, {{kWidth, 1}, {length * kWidth}});
  const auto shown = m.apply(Op::as_strided, {grown}, ir::Attrs{{length + 1, kWidth}, {kWidth, 1}, {0}});
  for (int layer = 0; layer < 3; ++layer)
    row = m.apply(Op::tanh, {m.apply(Op::matmul, {row, m.input({kWidth, kWidth})})});
  m.graph.outputs = {grown, m.apply(Op::matmul, {shown, m.reshape(row, ir::Dims{kWidth, 1})})};
  m.graph.donated.assign(static_cast<size_t>(m.graph.input_count), false);
  m.graph.donated[0] = true;
  return m.graph;
}

struct Appending {
  bool is_room = true;     // nobody reads what is behind
  bool is_shared = false;  // somebody else has the memory
};

// Whether the part that appends ran ahead, where the memory lies.
bool appends(jit::PartCache& cache, int64_t length, const Appending& how) {
  const ir::Graph graph = growing(length);
  const Recorded recorded(graph);
  TestHost host;
  std::vector<jit::Buffer> in = inputs_of(host, graph);
  const jit::Buffer other = how.is_shared ? in[0] : jit::Buffer{};
  const std::vector<float> before = values_of(in[0]);
  PartsAhead ahead(cache, {}, no_lines);
  const ir::Listing all = recorded.listing();
  PartsAhead::Recorded recording = whole(all, in);
  recording.inputs[0].is_appended_to = how.is_room;
  ahead.append(recording);
  while (ahead.step(host)) {}
  const bool appended = !ahead.appended().empty();
  auto executable = cache.compile(all, recorded.live(), graph.donated, {}, no_lines, &ahead);
  const Ran got = run(*executable, host, graph, in);
  EXPECT_EQ(got.outputs[0].data == in[0].data, appended);
  EXPECT_EQ(in[0].owner.use_count() > (how.is_shared ? 2 : 1), appended) << "the result holds it";

  // As it is without any of this, and nothing of the old rows has changed.
  jit::PartCache own;
  const Ran want = run(*own.compile(all, recorded.live(), {}, {}, no_lines), host, graph, inputs_of(host, graph));
  EXPECT_EQ(got.floats, want.floats);
  std::vector<float> after = values_of(in[0]);
  if (appended)
    for (int64_t i = length * kWidth; i < (length + 1) * kWidth; ++i) after[i] = before[i];
  EXPECT_EQ(after, before);
  return appended;
}

TEST(PartsAhead, AppendWhereNobodyReads) {
  jit::PartCache cache;
  EXPECT_FALSE(appends(cache, 500, {})) << "nothing is expected yet";
  for (int64_t length : {500, 501, 700}) EXPECT_TRUE(appends(cache, length, {})) << length;
  EXPECT_FALSE(appends(cache, 500, {.is_room = false}));
  EXPECT_FALSE(appends(cache, 500, {.is_shared = true}));
  EXPECT_TRUE(appends(cache, 500, {}));
}

// Values that are put together for nobody, or for what follows: where nobody needed them they are no part of their own.
ir::Graph gathered_beside(bool is_needed) {
  Model m;
  auto x = m.input({3, kWidth});
  for (int layer = 0; layer < 4; ++layer) {
    const auto inner = m.apply(Op::tanh, {m.apply(Op::matmul, {x, m.input({kWidth, kWidth})})});
    x = m.apply(Op::exp, {m.mul(inner, 0.1)});
    const auto kept = m.emit(Op::cat, {inner, x, inner, x, inner}, {{0}});
    if (is_needed) m.graph.outputs.push_back(kept);
  }
  m.graph.outputs.push_back(x);
  return m.graph;
}

TEST(PartsAhead, WhatNobodyNeededBefore) {
  jit::PartCache cache;
  const auto taken = [&](bool is_needed) { return taken_of(cache, gathered_beside(is_needed)); };
  taken(false);
  EXPECT_GE(taken(false), 3) << "all but the part whose end is not known";
  for (int i = 0; i < 2; ++i) taken(true);
  EXPECT_GE(taken(true), 6) << "layers, and what is put together beside them";
}

// An index out of range fails as it does without.
TEST(PartsAhead, Failures) {
  Model m;
  auto x = m.input({4}), index = m.input(ir::DType::I64, {2});
  auto found = m.emit(Op::gather, {x, index}, {{0}});
  auto product = m.apply(Op::matmul, {m.reshape(found, ir::Dims{1, 2}), m.input({2, 2})});
  m.graph.outputs = {m.apply(Op::matmul, {m.apply(Op::exp, {product}), m.input({2, 2})})};
  const Recorded recorded(m.graph);
  TestHost host;
  jit::PartCache cache;
  for (int64_t at : {1, 3, 9, 2}) {
    std::vector<jit::Buffer> in = inputs_of(host, m.graph);
    in[1] = buffer_of(host, std::vector<int64_t>{1, at});
    PartsAhead ahead(cache, {}, no_lines);
    const ir::Listing all = recorded.listing();
    ahead.append(whole(all, in));
    while (ahead.step(host)) {}
    EXPECT_EQ(ahead.runs() > 0, at != 1 && at != 9) << at;
    auto executable = cache.compile(all, recorded.live(), {}, {}, no_lines, &ahead);
    if (at == 9)
      EXPECT_THROW(run(*executable, host, m.graph, in), jit::PartialFailure);
    else
      EXPECT_NO_THROW(run(*executable, host, m.graph, in));
  }
}

}  // namespace
}  // namespace lazuli::testing
