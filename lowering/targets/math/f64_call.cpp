// Which function of float64 a name means.
#include "ir/error.h"
#include "lowering/targets/math/f64.h"

namespace lazuli::lowering::math::f64 {
namespace {

struct Unary {
  std::string_view name;
  Vec (*function)(Vec);
};
constexpr Unary kUnary[] = {{"expm1", expm1}, {"sinh", sinh}, {"cosh", cosh}, {"tanh", tanh}, {"log", log},
                            {"log1p", log1p}, {"log2", log2}, {"sin", sin},   {"cos", cos},   {"tan", tan},
                            {"asin", asin},   {"acos", acos}, {"atan", atan}, {"erf", erf},   {"erfc", erfc}};
struct Binary {
  std::string_view name;
  Vec (*function)(Vec, Vec);
};
constexpr Binary kBinary[] = {{"pow", pow}, {"atan2", atan2}, {"fmod", fmod}};

}  // namespace

Vec call(std::string_view name, llvm::ArrayRef<Vec> args) {
  for (const Unary& f : kUnary)
    if (f.name == name) return f.function(args[0]);
  for (const Binary& f : kBinary)
    if (f.name == name) return f.function(args[0], args[1]);
  throw InternalError("no code for function " + std::string(name) + " without a C library");
}

}  // namespace lazuli::lowering::math::f64
