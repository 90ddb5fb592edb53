// Sizes with expressions: what they follow from, and under which conditions.
#include "ir/size.h"
#include <bit>
#include <functional>
#include <random>
#include <gtest/gtest.h>
#include "ir/dims.h"
#include "ir/size_table.h"

namespace lazuli::ir::testing {
namespace {

// What `f` makes of symbols with these values, and the table of it.
struct Made {
  SizeTable table;
  std::vector<Size> results;
  Made(const std::vector<int64_t>& at, const std::function<std::vector<Size>(std::vector<Size>)>& f) {
    std::vector<Size> symbols;
    for (int64_t n : at) symbols.push_back(table.symbol(n));
    const SizeTable::Making making(table);
    results = f(symbols);
  }
  // At other values; nothing where a condition does not hold.
  std::optional<std::vector<int64_t>> at(const std::vector<int64_t>& symbols) const {
    std::vector<int64_t> values, out;
    if (!table.evaluate(symbols, values)) return {};
    for (Size n : results) out.push_back(SizeTable::number(n, values));
    return out;
  }
};
using Numbers = std::vector<int64_t>;

TEST(Size, PlainOnesAreNumbers) {
  const Size a = 7, b = -2;
  EXPECT_EQ(int64_t{a * b + 3}, -11);
  EXPECT_EQ(int64_t{a / b}, -3);
  EXPECT_EQ(int64_t{a % 4}, 3);
  EXPECT_TRUE(a > b && b < 0 && a != b && a >= 7 && 7 <= a);
  EXPECT_EQ(int64_t{max(a, b)}, 7);
  EXPECT_EQ(int64_t{clamp(a, 0, 5)}, 5);
  EXPECT_EQ(int64_t{abs(b)}, 2);
  EXPECT_EQ(std::bit_cast<double>(int64_t{a.as_double()}), 7.0);
  EXPECT_FALSE(a.is_symbolic());
}

// A constant may be any number of 64 bits.
TEST(Size, ANumberThatLooksLikeAnExpressionIsANumber) {
  const Size odd = Size::of_expression(3), same = static_cast<int64_t>(odd.bits());
  EXPECT_TRUE(odd == same);
  EXPECT_FALSE(odd == 3);
  EXPECT_EQ(int64_t{odd + 1}, static_cast<int64_t>(odd.bits()) + 1);
  EXPECT_EQ(odd.hint(), static_cast<int64_t>(odd.bits()));
  EXPECT_EQ(Dims{odd}, Dims{same});
}

TEST(Size, ArithmeticIsNotedAndComparisonsAreConditions) {
  const Made made({6, 4}, [](std::vector<Size> s) -> std::vector<Size> {
    return {s[0] * s[1] + 1, s[0] > s[1] ? s[0] / 2 : s[1], min(s[0], s[1]), s[0] * 0, s[0] - s[0], s[1] / s[1]};
  });
  EXPECT_EQ(made.table.conditions(), 2u) << "which is greater, and that what it is divided by is not zero";
  EXPECT_EQ(made.at({6, 4}), (Numbers{25, 3, 4, 0, 0, 1}));
  EXPECT_EQ(made.at({9, 2}), (Numbers{19, 4, 2, 0, 0, 1}));
  EXPECT_EQ(made.at({4, 6}), std::nullopt);
  EXPECT_EQ(made.table.why_not(Numbers{4, 6}), "s1 < s0");
  EXPECT_EQ(made.at({4, 0}), std::nullopt);
}

TEST(Size, WhoNeedsANumberPinsIt) {
  const Made made({6}, [](std::vector<Size> s) -> std::vector<Size> { return {Size(int64_t{s[0] + 1})}; });
  EXPECT_EQ(made.at({6}), (Numbers{7}));
  EXPECT_EQ(made.at({7}), std::nullopt);
  EXPECT_EQ(made.table.why_not(Numbers{7}), "7 == (1 + s0)");
}

TEST(Size, ListsOfNumbersAreRefused) {
  SizeTable table;
  const Dims dims{3, table.symbol(5)};
  const SizeTable::Making making(table);
  EXPECT_THROW(numbers(dims), NotGeneric);
  EXPECT_EQ(numbers(Dims{3, 5}).size(), 2u);
}

TEST(Size, EqualExpressionsAreOne) {
  const Made made({6, 4}, [](std::vector<Size> s) -> std::vector<Size> {
    EXPECT_TRUE(s[0] * s[1] == s[1] * s[0]);
    return {s[0] * s[1]};
  });
  EXPECT_EQ(made.table.conditions(), 0u);
  EXPECT_EQ(made.table.size(), 3u);
}

TEST(Size, WhatIsEqualByChanceMakesNoCondition) {
  const Made made({6, 6, 12}, [](std::vector<Size> s) -> std::vector<Size> {
    EXPECT_FALSE(always_equal(s[0], s[1]));
    EXPECT_FALSE(always_equal(s[0], 6));
    EXPECT_FALSE(always_equal(s[0] + s[1], s[2]));
    EXPECT_TRUE(always_equal(Size(2), 2));
    EXPECT_FALSE(always_equal(Size(2), 3));
    return {};
  });
  EXPECT_EQ(made.table.conditions(), 0u);
  const Made others({2, 3, 6, 3}, [](std::vector<Size> s) -> std::vector<Size> {
    EXPECT_FALSE(always_equal(s[0] * s[1], s[2]));
    EXPECT_FALSE(always_equal(s[0] * s[0], s[3])) << "which differ now, if not elsewhere";
    return {};
  });
  EXPECT_EQ(others.table.conditions(), 0u);
  const Made structural({6}, [](std::vector<Size> s) -> std::vector<Size> {
    EXPECT_TRUE(always_equal(s[0] + s[0], 2 * s[0]));
    EXPECT_TRUE(always_equal(max(s[0], 1), s[0]));
    return {};
  });
  EXPECT_EQ(structural.table.conditions(), 2u) << "an example is no proof";
  EXPECT_EQ(structural.at({0}), std::nullopt);
  EXPECT_NE(structural.at({1}), std::nullopt);
}

// A program of random operations, which branches on what it finds.
std::vector<Size> random_program(uint32_t seed, std::vector<Size> n) {
  std::mt19937 random(seed);
  for (int step = 0; step < 25; ++step) {
    const Size a = n[random() % n.size()], b = n[random() % n.size()], c = static_cast<int64_t>(random() % 7);
    switch (random() % 10) {
      case 0:
        n.push_back(a + b);
        break;
      case 1:
        n.push_back(a - c);
        break;
      case 2:
        n.push_back(a * c);
        break;
      case 3:
        n.push_back(b != 0 ? a / b : a);
        break;
      case 4:
        n.push_back(b > 0 ? a % b : b);
        break;
      case 5:
        n.push_back(min(a, b));
        break;
      case 6:
        n.push_back(max(a, c));
        break;
      case 7:
        n.push_back(a == b ? a + 1 : b);
        break;
      case 8:
        n.push_back(a < c ? c : -a);
        break;
      case 9:
        n.push_back(abs(a).as_double() == 0 ? Size(1) : a);
        break;
    }
  }
  return n;
}

TEST(Size, WhereConditionsHoldTheProgramWouldHaveDoneTheSame) {
  int served = 0;
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto some = [&] { return Numbers{int64_t(random() % 6), int64_t(random() % 6), int64_t(random() % 20)}; };
    const Made made(some(), [&](std::vector<Size> s) { return random_program(seed, std::move(s)); });
    for (int other = 0; other < 20; ++other) {
      const Numbers at = some();
      const auto got = made.at(at);
      EXPECT_EQ(got.has_value(), made.table.why_not(at).empty());
      if (!got) continue;
      ++served;
      Numbers want;
      for (Size n : random_program(seed, {at.begin(), at.end()})) want.push_back(n);
      ASSERT_EQ(*got, want) << "seed " << seed;
    }
  }
  EXPECT_GT(served, 400);
}

}  // namespace
}  // namespace lazuli::ir::testing
