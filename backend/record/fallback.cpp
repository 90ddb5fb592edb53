// The boxed fallback: every op of torch works, as an external call to the backing device's own eager kernel.
#include <algorithm>
#include <ATen/native/CPUFallback.h>
#include "backend/device/generator.h"
#include "backend/loader/loader.h"
#include "backend/record/by_parts.h"
#include "backend/record/dispatch.h"
#include "backend/record/moved_operands.h"
#include "lazy/external/external.h"
#include "lazy/memory/backing.h"
#include "lazy/record/tape.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

// A random op of the backing device draws from a generator of that device. It is seeded from ours, whose state then
// reproduces what the op draws; under LAZULI_RANDOM=eager it is the one behind ours.
void lend_generator(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const auto& arguments = op.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != "generator") continue;
    c10::IValue& v = (*stack)[stack->size() - arguments.size() + i];
    Generator& ours = generator_of(v.isNone() ? std::nullopt : std::optional(v.toGenerator()));
    if (draws_as_eager()) {
      v = ours.eager();
      continue;
    }
    auto [seed, offset] = ours.draw(1);
    v = backing_generator(static_cast<uint64_t>(seed) + 0x9E3779B97F4A7C15ull * static_cast<uint64_t>(offset));
  }
}

bool has_generator_of_host(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const size_t count = op.schema().arguments().size();
  return std::any_of(stack.end() - static_cast<ptrdiff_t>(count), stack.end(),
                     [](const c10::IValue& v) { return v.isGenerator() && is_of_host(v.toGenerator()); });
}

// What such a generator draws, only the CPU's kernels draw: where they are not the backing device's, between copies.
void draw_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (lazy::backing().has_host_kernels) return lazy::external_call(op, stack);
  lazy::announce(op, "draws with a generator of the host, between copies");
  const lazy::ExternalTimer timer(toString(op.operator_name()));
  at::native::cpu_fallback(op, stack);
}

}  // namespace

void fallback(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  if (lazy::Tape::current()) throw NotTaped{};
  if (call_with_moved_operands(op, stack)) return;
  if (!lazy::is_reference_mode() && call_by_parts(op, stack)) return;
  if (has_generator_of_host(op, *stack)) return draw_on_host(op, stack);
  if (op.hasTag(at::Tag::nondeterministic_seeded)) lend_generator(op, stack);
  lazy::external_call(op, stack);
}

[[maybe_unused]] const bool is_fallback =
    set_fallback(c10::DispatchKey::PrivateUse1,
                 [](const c10::OperatorHandle& op, torch::jit::Stack* stack) { fallback(op, {}, stack); });

}  // namespace lazuli::backend
