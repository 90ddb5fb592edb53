// Inner loops compiled for several instruction sets, chosen once by the host's features. The build itself targets
// a baseline CPU, and GCC's target_clones needs ifuncs, which the sanitizers' start-up does not survive.
#pragma once

namespace lazuli::lowering {

enum class Features { Baseline, Avx2, Avx512 };

inline Features host_features() {
  static const Features found = [] {
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
        __builtin_cpu_supports("avx512vl"))
      return Features::Avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return Features::Avx2;
#endif
    return Features::Baseline;
  }();
  return found;
}

#if defined(__x86_64__)
#define LAZULI_TARGET_AVX512 \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")))
#define LAZULI_TARGET_AVX2 __attribute__((target("avx2,fma,f16c")))
#else
#define LAZULI_TARGET_AVX512
#define LAZULI_TARGET_AVX2
#endif
#define LAZULI_INLINE inline __attribute__((always_inline))
#define LAZULI_INLINE_LAMBDA __attribute__((always_inline))

// Runs Body::run(args...), which must be LAZULI_INLINE, as compiled for the host. The body must not hold an OpenMP
// region (an outlined region loses the target), and should be loops that the compiler vectorizes: GCC splits explicit
// vector types for the baseline CPU before it inlines.
template <class Body, class... A>
LAZULI_TARGET_AVX512 void run_avx512(A... args) {
  Body::run(args...);
}
template <class Body, class... A>
LAZULI_TARGET_AVX2 void run_avx2(A... args) {
  Body::run(args...);
}
template <class Body, class... A>
void run_for_host(A... args) {
  switch (host_features()) {
    case Features::Avx512:
      return run_avx512<Body, A...>(args...);
    case Features::Avx2:
      return run_avx2<Body, A...>(args...);
    case Features::Baseline:
      return Body::run(args...);
  }
}

}  // namespace lazuli::lowering
