// A number of a shape, stride, offset or attribute. Mostly it is only that. While a plan is made that is to serve other
// sizes too (size_table.h), some of them also know how they follow from the numbers that may be others: arithmetic on
// them is noted as an expression, and whatever is decided by comparing them as a condition. So the compiler is written
// once, for numbers.
//
// Who needs a plain number gets one by conversion; that it has this value is then a condition, too.
#pragma once
#include <algorithm>
#include <concepts>
#include <cstdint>
#include <ranges>
#include <span>
#include <string>

namespace lazuli::ir {

class Size {
 public:
  enum class How : uint8_t { Symbol, Add, Sub, Mul, Div, Mod, Min, Max, AsDouble, Equal, Less };

  constexpr Size() = default;
  template <std::integral T>
  constexpr Size(T n) : bits_(static_cast<int64_t>(n)) {}

  // Whether the number has an expression, and which: by its place in the table that is being made.
  constexpr bool is_symbolic() const { return bits_ >> kIndexBits == kMark; }
  constexpr uint32_t expression() const { return static_cast<uint32_t>(bits_); }
  // Equal bits, equal numbers; for hashes, which need no more.
  constexpr uint64_t bits() const { return static_cast<uint64_t>(bits_); }
  static constexpr Size of_expression(uint32_t index) { return Size(kMark << kIndexBits | index); }

  // The number, which from now on is a condition.
  operator int64_t() const { return is_symbolic() ? pinned(*this) : bits_; }
  explicit operator bool() const { return *this != 0; }
  // The number as it is now, of which nothing may depend but speed.
  int64_t hint() const { return is_symbolic() ? value_of(*this) : bits_; }
  // Where one dimension more does no harm, a size that may be one counts as another: one plan then serves both.
  bool is_surely_one() const { return bits_ == 1; }
  // Whether the two are equal and stay so for other sizes, as one example of them shows. For choices that are right
  // either way: of sizes that are equal by chance no plan then depends.
  friend bool always_equal(Size a, Size b) {
    return either(a, b) ? equal_elsewhere(a, b) && a == b : a.bits_ == b.bits_;
  }
  // The bits of a double of this value.
  Size as_double() const;

  friend Size operator+(Size a, Size b) { return either(a, b) ? apply(How::Add, a, b) : Size(a.bits_ + b.bits_); }
  friend Size operator-(Size a, Size b) { return either(a, b) ? apply(How::Sub, a, b) : Size(a.bits_ - b.bits_); }
  friend Size operator*(Size a, Size b) { return either(a, b) ? apply(How::Mul, a, b) : Size(a.bits_ * b.bits_); }
  friend Size operator/(Size a, Size b) { return either(a, b) ? apply(How::Div, a, b) : Size(a.bits_ / b.bits_); }
  friend Size operator%(Size a, Size b) { return either(a, b) ? apply(How::Mod, a, b) : Size(a.bits_ % b.bits_); }
  friend bool operator==(Size a, Size b) { return either(a, b) ? compare(How::Equal, a, b) : a.bits_ == b.bits_; }
  friend bool operator<(Size a, Size b) { return either(a, b) ? compare(How::Less, a, b) : a.bits_ < b.bits_; }
  friend bool operator!=(Size a, Size b) { return !(a == b); }
  friend bool operator>(Size a, Size b) { return b < a; }
  friend bool operator<=(Size a, Size b) { return !(b < a); }
  friend bool operator>=(Size a, Size b) { return !(a < b); }
// Beside plain numbers, which would otherwise do as well by conversion.
#define LAZULI_MIXED(result, op)                     \
  template <std::integral T>                         \
  friend constexpr result operator op(Size a, T b) { \
    return a op Size(b);                             \
  }                                                  \
  template <std::integral T>                         \
  friend constexpr result operator op(T a, Size b) { \
    return Size(a) op b;                             \
  }
  LAZULI_MIXED(Size, +)
  LAZULI_MIXED(Size, -)
  LAZULI_MIXED(Size, *)
  LAZULI_MIXED(Size, /)
  LAZULI_MIXED(Size, %)
  LAZULI_MIXED(bool, ==)
  LAZULI_MIXED(bool, !=)
  LAZULI_MIXED(bool, <)
  LAZULI_MIXED(bool, <=)
  LAZULI_MIXED(bool, >)
  LAZULI_MIXED(bool, >=)
#undef LAZULI_MIXED
  Size operator-() const { return Size(0) - *this; }
  Size& operator+=(Size b) { return *this = *this + b; }
  Size& operator-=(Size b) { return *this = *this - b; }
  Size& operator*=(Size b) { return *this = *this * b; }
  Size& operator/=(Size b) { return *this = *this / b; }
  Size& operator%=(Size b) { return *this = *this % b; }
  Size& operator++() { return *this = *this + Size(1); }
  Size& operator--() { return *this = *this - Size(1); }
  Size operator++(int) {
    const Size before = *this;
    ++*this;
    return before;
  }
  friend Size min(Size a, Size b) { return either(a, b) ? apply(How::Min, a, b) : b.bits_ < a.bits_ ? b : a; }
  friend Size max(Size a, Size b) { return either(a, b) ? apply(How::Max, a, b) : a.bits_ < b.bits_ ? b : a; }
  friend Size clamp(Size a, Size low, Size high) { return max(low, min(a, high)); }
  friend Size abs(Size a) { return a < Size(0) ? -a : a; }

 private:
  static constexpr int kIndexBits = 32;
  // In the upper half of what has an expression. A number that looks so (which no size does, but a constant may) makes
  // the compiler give up plans for other sizes.
  static constexpr int64_t kMark = 0x7FF5A217;
  static constexpr bool either(Size a, Size b) { return a.is_symbolic() | b.is_symbolic(); }
  static Size apply(How how, Size a, Size b);
  static bool compare(How how, Size a, Size b);
  static bool equal_elsewhere(Size a, Size b);
  static int64_t pinned(Size a);
  static int64_t value_of(Size a);

  int64_t bits_ = 0;
};

// A list of plain numbers; throws NotGeneric where one has an expression.
std::span<const int64_t> numbers(std::span<const Size> sizes);

inline std::string to_string(Size n) { return std::to_string(n.hint()); }

// Plain numbers and sizes have the same representation, so that lists of plain numbers are lists of sizes.
class SizeSpan : public std::span<const Size> {
 public:
  using std::span<const Size>::span;
  SizeSpan() = default;
  SizeSpan(std::span<const Size> v) : std::span<const Size>(v) {}
  template <std::ranges::contiguous_range R>
    requires std::same_as<std::ranges::range_value_t<R>, int64_t>
  SizeSpan(const R& v) : SizeSpan(std::ranges::data(v), std::ranges::size(v)) {}
  SizeSpan(const int64_t* v, size_t n) : SizeSpan(reinterpret_cast<const Size*>(v), n) {}
  SizeSpan subspan(size_t from, size_t n = std::dynamic_extent) const {
    return std::span<const Size>::subspan(from, n);
  }
  SizeSpan first(size_t n) const { return std::span<const Size>::first(n); }
  SizeSpan last(size_t n) const { return std::span<const Size>::last(n); }
};

}  // namespace lazuli::ir
