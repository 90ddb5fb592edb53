#include "lowering/nest/scalar_program.h"
#include <cmath>
#include <map>
#include <memory>
#include <mutex>

namespace lazuli::lowering {
namespace {

// Roughly, in additions of a vector: what recomputing a formula costs.
int cost(ir::Prim p) {
  using ir::Prim;
  if (p <= Prim::convert) return p == Prim::convert ? 1 : 0;
  if (p == Prim::random) return 40;
  if (p == Prim::pow || p == Prim::atan2 || (p >= Prim::exp && p <= Prim::erfc)) return 16;
  if (p == Prim::div || p == Prim::sqrt || p == Prim::rsqrt || p == Prim::reciprocal) return 3;
  if (p == Prim::floordiv || p == Prim::mod || p == Prim::fmod) return 12;
  return 1;
}

// Few enough bits for every floating type.
bool is_short(double x) {
  int exponent;
  const double bits = std::frexp(x, &exponent) * 256;
  return x == 0 || std::isnan(x) || std::isinf(x) || (bits == std::trunc(bits) && std::abs(exponent) < 14);
}

bool keeps_narrow(const ScalarProgram& p) {
  using ir::Prim;
  std::vector<bool> narrow(p.graph.size());
  for (size_t n = 0; n < p.graph.size(); ++n) {
    const ir::ScalarNode& s = p.graph[static_cast<uint16_t>(n)];
    if (!ir::is_floating(s.dtype)) continue;
    switch (s.prim) {
      case Prim::argument:
        narrow[n] = s.dtype == ir::DType::F32;
        break;
      case Prim::literal:
        narrow[n] = is_short(s.value);
        break;
      case Prim::convert:
        narrow[n] = p.graph[s.args[0]].dtype == ir::DType::Bool;
        break;
      case Prim::neg:
      case Prim::abs:
      case Prim::floor:
      case Prim::ceil:
      case Prim::trunc:
      case Prim::round:
        narrow[n] = narrow[s.args[0]];
        break;
      case Prim::minimum:
      case Prim::maximum:
      case Prim::fmod:
        narrow[n] = narrow[s.args[0]] && narrow[s.args[1]];
        break;
      case Prim::select:
        narrow[n] = narrow[s.args[1]] && narrow[s.args[2]];
        break;
      default:
        break;
    }
  }
  return narrow[p.result];
}

std::unique_ptr<ScalarProgram> record(ir::Op op, std::span<const ir::DType> operands, ir::DType result) {
  auto program = std::make_unique<ScalarProgram>();
  static_cast<ir::Program&>(*program) = ir::expand_body(op, operands, result);
  for (const ir::ScalarNode& n : program->graph.nodes()) program->cost += cost(n.prim);
  program->keeps_narrow = keeps_narrow(*program);
  return program;
}

}  // namespace

const ScalarProgram& scalar_program(ir::Op op, std::span<const ir::DType> operands, ir::DType result) {
  static std::mutex mutex;
  static std::map<std::pair<uint64_t, std::string>, std::unique_ptr<ScalarProgram>> programs;
  std::string types;
  for (ir::DType t : operands) types.push_back(static_cast<char>(ir::compute_type(t)));
  types.push_back(static_cast<char>(ir::compute_type(result)));
  std::lock_guard lock(mutex);
  auto& slot = programs[{static_cast<uint64_t>(op), types}];
  if (!slot) slot = record(op, operands, result);
  return *slot;
}

}  // namespace lazuli::lowering
