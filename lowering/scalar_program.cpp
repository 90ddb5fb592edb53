#include "lowering/scalar_program.h"
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

std::unique_ptr<ScalarProgram> record(ir::Op op, std::span<const ir::DType> operands, ir::DType result) {
  auto program = std::make_unique<ScalarProgram>();
  static_cast<ir::Program&>(*program) = ir::expand_body(op, operands, result);
  for (const ir::ScalarNode& n : program->graph.nodes()) program->cost += cost(n.prim);
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
