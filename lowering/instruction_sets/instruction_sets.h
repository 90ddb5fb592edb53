// Inner loops compiled for several instruction sets (all.def), chosen once by what the host has. The build itself
// targets a baseline CPU, and GCC's target_clones needs ifuncs, which the sanitizers' start-up does not survive.
#pragma once
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace lazuli::lowering {

#define LAZULI_TARGET_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")))
#define LAZULI_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#define LAZULI_INLINE inline __attribute__((always_inline))
#define LAZULI_INLINE_LAMBDA __attribute__((always_inline))

enum class InstructionSet : uint8_t {
#define INSTRUCTION_SET(name, ...) name,
#include "lowering/instruction_sets/all.def"
};

// LAZULI_CPU=avx2: to be as a host without AVX-512, in generated code and in all libraries.
inline bool is_held_to_avx2() {
  static const bool held = [] {
    const char* cpu = std::getenv("LAZULI_CPU");
    return cpu && std::strcmp(cpu, "avx2") == 0;
  }();
  return held;
}

// The best that this host has.
inline InstructionSet host_instruction_set() {
  static const InstructionSet found = [] {
#define INSTRUCTION_SET(name, target, is_there, ...) \
  if (is_there) return InstructionSet::name;
#include "lowering/instruction_sets/all.def"
    return InstructionSet::Baseline;
  }();
  return found;
}

inline int64_t rounded_up(int64_t n, int64_t step) { return (n + step - 1) / step * step; }

// The block of sums that a product's inner loop holds in registers: some rows, two vectors wide.
struct RegisterBlock {
  int64_t rows, vector_bytes;
  template <class C>
  int64_t lanes() const {
    return vector_bytes / static_cast<int64_t>(sizeof(C));
  }
  template <class C>
  int64_t columns() const {
    return 2 * lanes<C>();
  }
  int64_t bytes() const { return rows * 2 * vector_bytes; }
};
template <InstructionSet>
inline constexpr RegisterBlock kRegisterBlock{};
#define INSTRUCTION_SET(name, target, is_there, rows, vector_bytes, ...) \
  template <>                                                            \
  inline constexpr RegisterBlock kRegisterBlock<InstructionSet::name>{rows, vector_bytes};
#include "lowering/instruction_sets/all.def"

// Calls f with the host's set as a std::integral_constant.
template <class F>
decltype(auto) for_host(F&& f) {
  switch (host_instruction_set()) {
#define INSTRUCTION_SET(name, ...) \
  case InstructionSet::name:       \
    return f(std::integral_constant<InstructionSet, InstructionSet::name>{});
#include "lowering/instruction_sets/all.def"
  }
  __builtin_unreachable();
}

inline RegisterBlock register_block() {
  return for_host([](auto set) { return kRegisterBlock<set()>; });
}

// Runs Body::run(args...), which must be LAZULI_INLINE, as compiled for the host. The body must not hold an OpenMP
// region (an outlined region loses the target), and should be loops that the compiler vectorizes: GCC splits explicit
// vector types for the baseline CPU before it inlines. Loops over such types are spelled by a macro, once for each set.
template <InstructionSet>
struct CompiledFor;
#define INSTRUCTION_SET(name, target, ...)   \
  template <>                                \
  struct CompiledFor<InstructionSet::name> { \
    template <class Body, class... A>        \
    target static void run(A... args) {      \
      Body::run(args...);                    \
    }                                        \
  };
#include "lowering/instruction_sets/all.def"
template <class Body, class... A>
void run_for_host(A... args) {
  for_host([&](auto set) { CompiledFor<set()>::template run<Body, A...>(args...); });
}

// What code is generated with.
struct GeneratedCode {
  unsigned vector_bits;
  bool masks;
  const char* llvm_cpu;
};
inline GeneratedCode generated_code(InstructionSet set) {
  switch (set) {
#define INSTRUCTION_SET(name, target, is_there, rows, vector_bytes, masks, llvm_cpu) \
  case InstructionSet::name:                                                         \
    return {8 * vector_bytes, masks, llvm_cpu};
#include "lowering/instruction_sets/all.def"
  }
  __builtin_unreachable();
}

}  // namespace lazuli::lowering
