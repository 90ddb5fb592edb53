// Listings in parts compute what they do whole, wherever they are cut; and where that is.
#include "ir/parts.h"
#include <cstring>
#include <random>
#include "ir/print.h"
#include "ir/verify.h"
#include "tests/ir/fuzz.h"
#include "tests/ir/recorded.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

// A piece of a value's memory, as another type.
Tensor piece(const Tensor& whole, int64_t offset, const Type& type) {
  Tensor t(type);
  if (!t.data.empty()) std::memcpy(t.data.data(), whole.data.data() + offset, t.data.size());
  return t;
}

std::vector<Tensor> interpret_parts(const Recorded& recorded, const Parts& parts, const std::vector<Tensor>& inputs,
                                    const std::vector<int64_t>& scalars) {
  const Listing listing = recorded.listing();
  std::vector<Tensor> values(recorded.values());
  for (const Entry& e : listing.entries)
    if (e.op == Op::input) values[e.first_result] = inputs[static_cast<size_t>(listing.attrs(e)[1])];
  for (size_t p = 0; p < parts.size(); ++p) {
    const Graph graph = graph_of(listing, parts, p, no_lines, parts.numbers_of(p));
    verify(graph);
    const Parts::Ends begin = parts.begin(p), end = parts.ends[p];
    std::vector<Tensor> in;
    for (uint32_t i = begin.inputs; i < end.inputs; ++i) {
      const Parts::Input& x = parts.inputs[i];
      in.push_back(x.offset == Parts::kWhole ? values[x.value] : Tensor());
      if (x.offset == Parts::kWhole) continue;
      for (const Node& n : graph.nodes)
        if (n.op == Op::input && n.attrs.number(0) == i - begin.inputs)
          in.back() = piece(values[x.value], x.offset, n.types[0]);
    }
    std::vector<int64_t> numbers;
    for (uint32_t i = begin.scalars; i < end.scalars; ++i) numbers.push_back(scalars[parts.scalars[i]]);
    const std::vector<Tensor> out = interpret(graph, in, numbers);
    for (size_t i = 0; i < out.size(); ++i) values[parts.outputs[begin.outputs + i].value] = out[i];
    // Whoever says that nobody needs a value must be right.
    for (uint32_t i = begin.inputs; i < end.inputs; ++i)
      if (parts.inputs[i].last) values[parts.inputs[i].value] = {};
  }
  std::vector<Tensor> out;
  for (ValueId v : recorded.live()) out.push_back(values[v]);
  return out;
}

void expect_same_in_parts(const Graph& graph, std::vector<uint32_t> seams, const std::vector<Tensor>& inputs) {
  const Recorded recorded(graph, std::move(seams));
  // Each value that is wanted once.
  const std::vector<ValueId>& live = recorded.live();
  const Parts parts = cut(recorded.listing(), live, {});
  const std::vector<Tensor> want = interpret(graph, inputs), got = interpret_parts(recorded, parts, inputs, {});
  for (size_t i = 0; i < want.size(); ++i) expect_close(got[i], want[i], 0, print(graph));
}

TEST(Parts, ComputeWhatTheWholeDoes) {
  for (uint32_t seed = 0; seed < seeds(300); ++seed) {
    SCOPED_TRACE(seed);
    const Graph graph = random_graph({.seed = seed, .nodes = 30});
    std::vector<uint32_t> every(graph.nodes.size());
    for (uint32_t n = 0; n < every.size(); ++n) every[n] = n;
    std::mt19937 random(seed);
    std::vector<uint32_t> some;
    for (uint32_t n : every)
      if (random() % 4 == 0) some.push_back(n);
    for (const auto& seams : {std::vector<uint32_t>(), some, every})
      expect_same_in_parts(graph, seams, random_inputs(graph, seed));
    if (HasFatalFailure()) return;
  }
}

// Layers of a product, a bias and an activation; each reads its rows of `states` through a window.
std::string layers(int count) {
  std::string text =
      "%0 : f32[4,8] = input [position=0]\n"
      "%1 : f32[8,8] = input [position=1]\n"
      "%2 : f32[8] = input [position=2]\n"
      "%3 : f32[40,8] = input [position=3]\n";
  std::string x = "%0";
  for (int i = 0; i < count; ++i) {
    const auto name = [&](int k) { return "%" + std::to_string(4 + 5 * i + k); };
    text += name(0) + " : f32[4,8] = matmul " + x + ", %1\n" + name(1) + " : f32[4,8] = slice %3 [starts=[" +
            std::to_string(4 * i) + ",0] sizes=[4,8] steps=[1,1]]\n" + name(2) + " : f32[4,8] = add " + name(0) +
            ", %2\n" + name(3) + " : f32[4,8] = tanh " + name(2) + "\n" + name(4) + " : f32[4,8] = mul " + name(3) +
            ", " + name(1) + "\n";
    x = name(4);
  }
  return text + "return " + x + "\n";
}

TEST(Parts, LayersAreTheSamePart) {
  const Graph graph = parse(layers(5));
  const Recorded recorded(graph);
  const Parts parts = cut(recorded.listing(), recorded.live(), {});
  ASSERT_EQ(parts.size(), 5u);
  const auto code = [&](size_t p) {
    const auto c = parts.code_of(p);
    return std::vector(c.begin(), c.end());
  };
  // The first has an input that nobody gives away.
  for (size_t p = 2; p < 5; ++p) EXPECT_EQ(code(p), code(1)) << p;
  EXPECT_NE(code(0), code(1));
}

// Layers whose weights are computed where they are used, from `bits` and a scale for each of their columns; `between`:
// what x becomes after its layer.
std::string layers_of_few_bits(int count, const std::string& bits, const std::string& between) {
  std::string text = "%0 : f32[4,16] = input [position=0]\n%1 : " + bits +
                     "[16,16] = input [position=1]\n%2 : f32[16] = input [position=2]\n";
  std::string x = "%0";
  for (int i = 0; i < count; ++i) {
    const auto name = [&](int k) { return "%" + std::to_string(3 + 4 * i + k); };
    text += name(0) + " : f32[16,16] = convert %1 [dtype=f32]\n" + name(1) + " : f32[16,16] = mul " + name(0) +
            ", %2\n" + name(2) + " : f32[4,16] = matmul " + x + ", " + name(1) + "\n" + name(3) +
            " : f32[4,16] = " + between + " " + name(2) + "\n";
    x = name(3);
  }
  return text + "return " + x + "\n";
}

TEST(Parts, WhatWeightsAreComputedFromIsInThePartOfTheirProduct) {
  const auto ops_of = [](const Recorded& recorded, const Parts& parts, size_t part) {
    std::string ops;
    for (const Parts::Node& n : parts.nodes_of(part))
      if (n.input == kAbsent) ops += std::string(name(recorded.listing().entries[n.entry].op)) + " ";
    return ops;
  };
  const Graph graph = parse(layers_of_few_bits(4, "i8", "tanh"));
  const Recorded recorded(graph);
  const Parts parts = cut(recorded.listing(), recorded.live(), {});
  ASSERT_EQ(parts.size(), 4u);
  for (size_t p = 0; p < 4; ++p) EXPECT_EQ(ops_of(recorded, parts, p), "convert mul matmul tanh ");
  for (size_t p = 2; p < 4; ++p) EXPECT_TRUE(std::ranges::equal(parts.code_of(p), parts.code_of(1))) << p;

  // As large before as after: they have to be in memory in any case.
  const Graph wide = parse(layers_of_few_bits(3, "i32", "tanh"));
  const Recorded of_wide(wide);
  const Parts at_products = cut(of_wide.listing(), of_wide.live(), {});
  ASSERT_EQ(at_products.size(), 4u);
  EXPECT_EQ(ops_of(of_wide, at_products, 1), "matmul tanh convert mul ");
}

// The part before it has computed what it is made of.
TEST(Parts, AnOperandThatDependsOnThePartBeforeBeginsNoPart) {
  const Graph graph = parse(
      "%0 : f32[4,16] = input [position=0]\n"
      "%1 : i8[16,16] = input [position=1]\n"
      "%2 : f32[16,16] = convert %1 [dtype=f32]\n"
      "%3 : f32[4,16] = matmul %0, %2\n"
      "%4 : i8[4,16] = convert %3 [dtype=i8]\n"
      "%5 : f32[4,16] = convert %4 [dtype=f32]\n"
      "%6 : f32[16,16] = convert %1 [dtype=f32]\n"
      "%7 : f32[4,16] = matmul %5, %6\n"
      "return %7\n");
  const Recorded recorded(graph);
  const Parts parts = cut(recorded.listing(), recorded.live(), {});
  ASSERT_EQ(parts.size(), 2u);
  EXPECT_EQ(parts.ends[0].entries, 6u);
}

// Nobody wants its results, so it is in the way of nothing.
TEST(Parts, WhatIsNotWantedEndsNoRunOfOperands) {
  const Graph graph = parse(
      "%0 : f32[4,16] = input [position=0]\n"
      "%1 : i8[16,16] = input [position=1]\n"
      "%2 : f32[4,16] = tanh %0\n"
      "%3 : f32[16,16] = convert %1 [dtype=f32]\n"
      "%4 : f32[4,1] = sum %2 [dims=1 keepdim=1]\n"
      "%5 : f32[4,16] = matmul %2, %3\n"
      "return %5\n");
  const Recorded recorded(graph);
  const Parts parts = cut(recorded.listing(), recorded.live(), {});
  // tanh, too, reads nothing but what it is given.
  ASSERT_EQ(parts.size(), 1u);
}

// So that all else is the same however many operands there are, and it is the same whatever becomes of them.
TEST(Parts, WhatGathersIsAPartOfItsOwn) {
  const auto code = [](int count, size_t part, bool donated) {
    std::string text, operands;
    for (int i = 0; i < count; ++i) {
      text += "%" + std::to_string(i) + " : f32[1,8] = input [position=" + std::to_string(i) + "]\n";
      operands += (i ? ", %" : " %") + std::to_string(i);
    }
    const auto name = [&](int k) { return "%" + std::to_string(count + k); };
    const std::string all = "f32[" + std::to_string(count) + ",8] = ";
    text += name(0) + " : f32[1,8] = exp %0\n" + name(1) + " : " + all + "cat" + operands + " [dim=0]\n" + name(2) +
            " : " + all + "tanh " + name(1) + "\nreturn " + name(0) + ", " + name(2) + "\n";
    const Graph graph = parse(text);
    const Recorded recorded(graph);
    const Parts parts =
        cut(recorded.listing(), recorded.live(), std::vector<bool>(static_cast<size_t>(count), donated));
    EXPECT_EQ(parts.size(), count > 4 ? 3u : 1u);
    EXPECT_EQ(std::ranges::count(parts.gathers, true), count > 4);
    const auto c = parts.code_of(std::min(part, parts.size() - 1));
    return std::vector(c.begin(), c.end());
  };
  EXPECT_EQ(code(8, 1, false), code(8, 1, true));
  EXPECT_NE(code(8, 0, false), code(8, 0, true));
  EXPECT_NE(code(8, 1, false), code(9, 1, false));
  EXPECT_EQ(code(8, 2, false), code(9, 2, false));
  code(4, 0, false);
}

TEST(Parts, APieceOfAValueIsWhatAPartReads) {
  const Graph graph = parse(layers(3));
  const Recorded recorded(graph);
  const Parts parts = cut(recorded.listing(), recorded.live(), {});
  std::vector<int64_t> offsets;
  for (const Parts::Input& x : parts.inputs)
    if (x.offset != Parts::kWhole) {
      offsets.push_back(x.offset);
      EXPECT_EQ(x.bytes, 4 * 8 * 4);
    }
  EXPECT_EQ(offsets, (std::vector<int64_t>{0, 128, 256}));
}

TEST(Parts, WhatIsNotWantedIsInNone) {
  const Graph graph = parse(
      "%0 : f32[4] = input [position=0]\n"
      "%1 : f32[4] = exp %0\n"
      "%2 : f32[4] = neg %0\n"
      "return %2\n");
  const Recorded recorded(graph);
  const Parts parts = cut(recorded.listing(), recorded.live(), {});
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_EQ(graph_of(recorded.listing(), parts, 0, no_lines, parts.numbers_of(0)).nodes.size(), 2u);
}

TEST(Parts, OnlyTheLastReaderMayOverwrite) {
  const Graph graph = parse(
      "%0 : f32[4] = input [position=0]\n"
      "%1 : f32[4] = exp %0\n"
      "%2 : f32[4] = neg %0\n"
      "%3 : f32[4] = add %2, %1\n"
      "return %2, %3\n");
  const Recorded recorded(graph, {1, 2, 3});
  const Parts parts = cut(recorded.listing(), recorded.live(), {true});
  ASSERT_EQ(parts.size(), 3u);
  ASSERT_EQ(parts.inputs.size(), 4u);
  EXPECT_FALSE(parts.inputs[0].last) << "the second part reads it";
  EXPECT_TRUE(parts.inputs[1].last && parts.inputs[1].donated);
  EXPECT_FALSE(parts.inputs[2].last) << "an output";
  EXPECT_TRUE(parts.inputs[3].last && parts.inputs[3].donated);
  EXPECT_FALSE(cut(recorded.listing(), recorded.live(), {false}).inputs[1].donated) << "somebody holds it";
}

}  // namespace
}  // namespace lazuli::ir::testing
