// How the sizes of a plan follow from a few of them, and under which conditions the plan is right: made once while the
// compiler runs on sizes with expressions (size.h), and evaluated for each other set of numbers.
//
// The compiler branches on sizes by comparing them alone, and each comparison is a condition here. Wherever all of them
// turn out as they did, it would have taken the same way, so what it made is right there with other numbers in it.
#pragma once
#include <stdexcept>
#include <unordered_map>
#include <vector>
#include "ir/size.h"

namespace lazuli::ir {

// A plan for other sizes cannot be made here.
struct NotGeneric : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class SizeTable {
 public:
  // A number that may be another one next time. All of them come before anything else.
  Size symbol(int64_t value);
  size_t symbols() const { return symbols_; }
  size_t size() const { return expressions_.size(); }

  // The sizes of this thread are those of the table, as long as this lives. Once.
  class Making {
   public:
    explicit Making(SizeTable& table);
    ~Making();
    Making(const Making&) = delete;

   private:
    SizeTable& table_;
    SizeTable* before_;
  };

  // Whether the plan serves these symbols' values; then `values` has the numbers of all expressions.
  bool evaluate(std::span<const int64_t> symbols, std::vector<int64_t>& values) const;
  // The first condition that does not hold for them, as text, for messages; none: empty.
  std::string why_not(std::span<const int64_t> symbols) const;
  size_t conditions() const { return conditions_.size(); }

  static int64_t number(Size n, std::span<const int64_t> values) {
    return n.is_symbolic() ? values[n.expression()] : n.hint();
  }

 private:
  friend class Size;
  struct Expression {
    Size::How how;
    Size a, b;
    int64_t value;      // while it is made
    int64_t elsewhere;  // what it would be for other symbols' values
  };
  struct Condition {
    Size::How how;
    bool holds;
    Size a, b;
  };
  struct Key {
    uint64_t how, a, b;
    friend bool operator==(const Key&, const Key&) = default;
  };
  struct KeyHash {
    size_t operator()(const Key& k) const;
  };
  int64_t value(Size n) const {
    return n.is_symbolic() ? expressions_[n.expression()].value : static_cast<int64_t>(n.bits());
  }
  int64_t elsewhere(Size n) const {
    return n.is_symbolic() ? expressions_[n.expression()].elsewhere : static_cast<int64_t>(n.bits());
  }
  Size apply(Size::How how, Size a, Size b);
  bool compare(Size::How how, Size a, Size b);
  bool holds(const Condition& c, std::span<const int64_t> values) const;
  void evaluate_all(std::span<const int64_t> symbols, std::vector<int64_t>& values) const;
  std::string text(Size n) const;

  size_t symbols_ = 0;
  std::vector<Expression> expressions_;
  std::vector<Condition> conditions_;
  std::unordered_map<Key, Size, KeyHash> known_;  // expressions
  std::unordered_map<Key, bool, KeyHash> known_conditions_;
};

}  // namespace lazuli::ir
