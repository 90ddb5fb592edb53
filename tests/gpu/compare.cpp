#include "tests/gpu/compare.h"
#include <algorithm>
#include <cmath>
#include <sstream>
#include "ir/interpret/scalar.h"

namespace lazuli::testing {
namespace {

bool agree(ir::Number got, ir::Number want, ir::DType t, double tolerance) {
  if (!ir::is_floating(t)) return got.i == want.i;
  if (std::isnan(got.f) || std::isnan(want.f)) return std::isnan(got.f) && std::isnan(want.f);
  const bool same_sign = std::signbit(got.f) == std::signbit(want.f);
  if (tolerance == 0 && !ir::is_reduced_floating(t)) return got.f == want.f && same_sign;
  if (tolerance == 0) {
    // Short forms (short_math.h) may round a result to the other side, and leave something of what should be zero.
    constexpr double kLeft = 1e-6;
    const double unit = t == ir::DType::BF16 ? 0x1p-7 : 0x1p-10, error = std::abs(got.f - want.f);
    return got.f == want.f ? same_sign : error <= unit * std::abs(want.f) || error <= kLeft;
  }
  return got.f == want.f || std::abs(got.f - want.f) <= tolerance * std::max(1.0, std::abs(want.f));
}

}  // namespace

std::string compare_access(const lowering::PlanStep& step, size_t access, const std::vector<char>& got,
                           const std::vector<char>& want, double tolerance) {
  const ir::DType t = step.loops.nest.accesses[access].dtype;
  const int64_t item = ir::item_size(t), n = static_cast<int64_t>(want.size()) / item;
  if (got.size() != want.size()) return "a" + std::to_string(access) + ": written outside its memory";
  int64_t wrong = 0, first = 0;
  for (int64_t i = n; i-- > 0;)
    if (!agree(ir::load_number(&got[i * item], t), ir::load_number(&want[i * item], t), t, tolerance)) {
      ++wrong;
      first = i;
    }
  if (!wrong) return "";
  const ir::Number g = ir::load_number(&got[first * item], t), w = ir::load_number(&want[first * item], t);
  std::ostringstream out;
  out.precision(9);
  out << "a" << access << " (" << ir::name(t) << "): " << wrong << " of " << n << " wrong, first " << first << ": ";
  if (ir::is_floating(t))
    out << g.f << " for " << w.f;
  else
    out << g.i << " for " << w.i;
  return out.str();
}

std::string compare_status(const std::vector<char>& got, const std::vector<char>& want) {
  if (got.size() != want.size()) return "status: written outside its memory";
  const auto fails = [](const std::vector<char>& s) {
    return std::any_of(s.begin(), s.end(), [](char c) { return c; });
  };
  return fails(got) == fails(want) ? "" : fails(got) ? "status: a check fails" : "status: no check fails";
}

}  // namespace lazuli::testing
