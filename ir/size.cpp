#include "ir/size.h"
#include <algorithm>
#include <array>
#include <bit>
#include "ir/size_table.h"

namespace lazuli::ir {
namespace {

thread_local SizeTable* making = nullptr;

int64_t compute(Size::How how, int64_t a, int64_t b) {
  switch (how) {
    case Size::How::Add:
      return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
    case Size::How::Sub:
      return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
    case Size::How::Mul:
      return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
    case Size::How::Div:
      return b == 0 ? 0 : b == -1 ? compute(Size::How::Sub, 0, a) : a / b;
    case Size::How::Mod:
      return b == 0 || b == -1 ? 0 : a % b;
    case Size::How::Min:
      return std::min(a, b);
    case Size::How::Max:
      return std::max(a, b);
    case Size::How::AsDouble:
      return std::bit_cast<int64_t>(static_cast<double>(a));
    case Size::How::Equal:
      return a == b;
    case Size::How::Less:
      return a < b;
    case Size::How::Symbol:
      break;
  }
  return a;
}

// From 3 on.
constexpr auto kPrimes = [] {
  std::array<int64_t, 100> primes{};
  size_t count = 0;
  for (int64_t n = 3; count < primes.size(); n += 2)
    if (std::none_of(primes.begin(), primes.begin() + count, [&](int64_t p) { return n % p == 0; }))
      primes[count++] = n;
  return primes;
}();

const char* sign(Size::How how) {
  constexpr const char* kSigns[] = {"", " + ", " - ", " * ", " / ", " % ", " min ", " max ", "", " == ", " < "};
  return kSigns[static_cast<size_t>(how)];
}

}  // namespace

// Where no table is being made, a number that looks as if it had an expression is a number.
Size Size::apply(How how, Size a, Size b) {
  return making ? making->apply(how, a, b) : Size(compute(how, a.bits_, b.bits_));
}
bool Size::compare(How how, Size a, Size b) {
  return making ? making->compare(how, a, b) : compute(how, a.bits_, b.bits_);
}
// Of two that differ now nothing is noted either.
bool Size::equal_elsewhere(Size a, Size b) {
  return !making || (making->value(a) == making->value(b) && making->elsewhere(a) == making->elsewhere(b));
}
int64_t Size::value_of(Size a) { return making ? making->value(a) : a.bits_; }
int64_t Size::pinned(Size a) {
  const int64_t n = value_of(a);
  if (making) making->compare(How::Equal, a, n);
  return n;
}
std::span<const int64_t> numbers(std::span<const Size> sizes) {
  if (std::ranges::any_of(sizes, &Size::is_symbolic) && making)
    throw NotGeneric("a list of sizes is wanted as numbers");
  return {reinterpret_cast<const int64_t*>(sizes.data()), sizes.size()};
}
Size Size::as_double() const {
  return is_symbolic() ? apply(How::AsDouble, *this, 0) : Size(compute(How::AsDouble, bits_, 0));
}

SizeTable::Making::Making(SizeTable& table) : table_(table), before_(making) { making = &table; }
SizeTable::Making::~Making() {
  making = before_;
  table_.known_ = {};
  table_.known_conditions_ = {};
  table_.expressions_.shrink_to_fit();
  table_.conditions_.shrink_to_fit();
}

size_t SizeTable::KeyHash::operator()(const Key& k) const {
  uint64_t h = (k.a ^ k.how) * 0x9E3779B97F4A7C15u;
  h = (h ^ (h >> 29) ^ k.b) * 0x9E3779B97F4A7C15u;
  return h ^ (h >> 32);
}

Size SizeTable::symbol(int64_t value) {
  // Times a prime of its own: what divides it still does, and products of others are others.
  const int64_t own = kPrimes[symbols_ % kPrimes.size()];
  expressions_.push_back({Size::How::Symbol, {}, {}, value, compute(Size::How::Mul, value, own)});
  return Size::of_expression(static_cast<uint32_t>(symbols_++));
}

Size SizeTable::apply(Size::How how, Size a, Size b) {
  using How = Size::How;
  if ((how == How::Add || how == How::Mul || how == How::Min || how == How::Max) && b.bits() < a.bits())
    std::swap(a, b);  // numbers stand first
  const auto is = [](Size n, int64_t number) { return !n.is_symbolic() && n.bits() == static_cast<uint64_t>(number); };
  if (how == How::Add && is(a, 0)) return b;
  if (how == How::Sub && is(b, 0)) return a;
  if (how == How::Mul && is(a, 1)) return b;
  if (how == How::Mul && is(a, 0)) return 0;
  if (how == How::Div && is(b, 1)) return a;
  if (how == How::Mod && is(b, 1)) return 0;
  // A divisor is not zero, wherever the compiler comes to divide.
  if (how == How::Div || how == How::Mod) compare(How::Equal, b, 0);
  if (a.bits() == b.bits()) {
    if (how == How::Sub || how == How::Mod) return 0;
    if (how == How::Div) return 1;
    if (how == How::Min || how == How::Max) return a;
  }
  const auto [it, fresh] = known_.try_emplace({static_cast<uint64_t>(how), a.bits(), b.bits()});
  if (fresh) {
    it->second = Size::of_expression(static_cast<uint32_t>(expressions_.size()));
    expressions_.push_back({how, a, b, compute(how, value(a), value(b)), compute(how, elsewhere(a), elsewhere(b))});
  }
  return it->second;
}

bool SizeTable::compare(Size::How how, Size a, Size b) {
  if (a.bits() == b.bits()) return how == Size::How::Equal;
  if (!a.is_symbolic() && !b.is_symbolic()) return compute(how, value(a), value(b));
  if (how == Size::How::Equal && b.bits() < a.bits()) std::swap(a, b);
  const auto [it, fresh] = known_conditions_.try_emplace({static_cast<uint64_t>(how), a.bits(), b.bits()});
  if (fresh) {
    it->second = compute(how, value(a), value(b));
    conditions_.push_back({how, it->second, a, b});
  }
  return it->second;
}

bool SizeTable::holds(const Condition& c, std::span<const int64_t> values) const {
  return static_cast<bool>(compute(c.how, number(c.a, values), number(c.b, values))) == c.holds;
}

void SizeTable::evaluate_all(std::span<const int64_t> symbols, std::vector<int64_t>& values) const {
  values.assign(symbols.begin(), symbols.end());
  values.reserve(expressions_.size());
  for (size_t i = symbols_; i < expressions_.size(); ++i) {
    const Expression& e = expressions_[i];
    values.push_back(compute(e.how, number(e.a, values), number(e.b, values)));
  }
}

bool SizeTable::evaluate(std::span<const int64_t> symbols, std::vector<int64_t>& values) const {
  evaluate_all(symbols, values);
  return std::ranges::all_of(conditions_, [&](const Condition& c) { return holds(c, values); });
}

std::string SizeTable::text(Size n) const {
  if (!n.is_symbolic()) return std::to_string(n.hint());
  const Expression& e = expressions_[n.expression()];
  if (e.how == Size::How::Symbol) return "s" + std::to_string(n.expression());
  if (e.how == Size::How::AsDouble) return "double(" + text(e.a) + ")";
  return "(" + text(e.a) + sign(e.how) + text(e.b) + ")";
}

std::string SizeTable::why_not(std::span<const int64_t> symbols) const {
  std::vector<int64_t> values;
  evaluate_all(symbols, values);
  for (const Condition& c : conditions_)
    if (!holds(c, values)) return (c.holds ? "" : "not ") + text(c.a) + sign(c.how) + text(c.b);
  return {};
}

}  // namespace lazuli::ir
