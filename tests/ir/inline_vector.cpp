#include "ir/inline_vector.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace lazuli::ir {
namespace {

using Words = InlineVector<std::string, 2>;

std::string word(size_t i) { return "a word too long to live in a string, number " + std::to_string(i); }

Words words(size_t n) {
  Words w;
  for (size_t i = 0; i < n; ++i) w.push_back(word(i));
  return w;
}

std::vector<std::string> listed(const Words& w) { return {w.begin(), w.end()}; }

class InlineVectors : public testing::TestWithParam<size_t> {};

TEST_P(InlineVectors, AreCopiedAndMoved) {
  const Words w = words(GetParam());
  for (size_t before : {0, 1, 2, 5}) {
    Words copy = words(before), source = w, moved = words(before);
    copy = w;
    EXPECT_EQ(copy, w);
    moved = std::move(source);
    EXPECT_EQ(moved, w);
    source = copy;  // what was moved from can be used again
    EXPECT_EQ(source, w);
    EXPECT_EQ(Words(std::move(source)), w);
  }
  EXPECT_EQ(w.size(), GetParam());
  EXPECT_EQ(Words(std::span<const std::string>(w)), w);
  EXPECT_NE(words(GetParam() + 1), w);
}

TEST_P(InlineVectors, ChangeLikeVectors) {
  Words w = words(GetParam());
  std::vector<std::string> v = listed(w);
  w.insert(0, word(10)), v.insert(v.begin(), word(10));
  w.insert(w.size(), word(11)), v.push_back(word(11));
  EXPECT_EQ(listed(w), v);
  w.push_back(w[0]), v.push_back(v[0]);
  w.erase(1), v.erase(v.begin() + 1);
  EXPECT_EQ(listed(w), v);
  w.resize(6, word(12)), v.resize(6, word(12));
  EXPECT_EQ(listed(w), v);
  w.resize(1), v.resize(1);
  EXPECT_EQ(listed(w), v);
  w.append(words(3));
  EXPECT_EQ(w.size(), 4u);
  EXPECT_EQ(w.back(), word(2));
  w.clear();
  EXPECT_TRUE(w.empty());
}

INSTANTIATE_TEST_SUITE_P(OfLength, InlineVectors, testing::Values(0, 1, 2, 3, 5, 9));

}  // namespace
}  // namespace lazuli::ir
