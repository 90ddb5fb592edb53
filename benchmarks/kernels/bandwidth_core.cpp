// How fast the memory is read at best: each thread walks along a part of its own and adds everything up in registers,
// fetching ahead. For each line on the standard input one with the bytes a second of a pass over the memory, on pages
// of the usual size and on large ones, as far as the system has such (MADV_HUGEPAGE).
// Usage: bandwidth_core BYTES THREADS
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>
#include <omp.h>
#include <sys/mman.h>

#include "lowering/instruction_sets/instruction_sets.h"

using namespace lazuli::lowering;

namespace {

constexpr int64_t kPage = int64_t{2} << 20, kPiece = 1024, kAhead = 4096;  // bytes

template <InstructionSet>
struct Reading;
#define INSTRUCTION_SET(name, target, is_there, rows, bytes, ...)                                                 \
  template <>                                                                                                     \
  struct Reading<InstructionSet::name> {                                                                          \
    target static float sum(const char* from, const char* to) {                                                   \
      typedef float Vector __attribute__((vector_size(bytes), may_alias));                                        \
      Vector sums[8] = {};                                                                                        \
      for (; from < to; from += kPiece) _Pragma("GCC unroll 64") for (int64_t at = 0; at < kPiece; at += bytes) { \
          if (at % 64 == 0) __builtin_prefetch(from + at + kAhead);                                               \
          sums[at / bytes % 8] += *reinterpret_cast<const Vector*>(from + at);                                    \
        }                                                                                                         \
      for (int i = 1; i < 8; ++i) sums[0] += sums[i];                                                             \
      return sums[0][0];                                                                                          \
    }                                                                                                             \
  };
#include "lowering/instruction_sets/all.def"

class Memory {
 public:
  Memory(int64_t bytes, int advice) : bytes_(bytes), data_(static_cast<char*>(std::aligned_alloc(kPage, bytes))) {
    if (!data_) std::exit(1);
    madvise(data_, bytes, advice);
    auto* floats = reinterpret_cast<float*>(data_);
#pragma omp parallel for
    for (int64_t i = 0; i < bytes / 4; ++i) floats[i] = 1e-3f;
  }
  double bytes_a_second() const {
    const auto begin = std::chrono::steady_clock::now();
    float sum = 0;
#pragma omp parallel reduction(+ : sum)
    {
      const int64_t share = bytes_ / omp_get_num_threads() / kPiece * kPiece;
      const char* from = data_ + omp_get_thread_num() * share;
      sum += for_host([&](auto set) { return Reading<set()>::sum(from, from + share); });
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
    return sum > 0 ? static_cast<double>(bytes_) / seconds.count() : 0;
  }

 private:
  int64_t bytes_;
  char* data_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const int64_t bytes = (std::atoll(argv[1]) + kPage - 1) / kPage * kPage;
  omp_set_num_threads(std::atoi(argv[2]));
  const Memory usual(bytes, MADV_NOHUGEPAGE), large(bytes, MADV_HUGEPAGE);
  for (std::string line; std::getline(std::cin, line);) {
    usual.bytes_a_second();
    const double first = usual.bytes_a_second();
    large.bytes_a_second();
    std::printf("{\"usual\": %.0f, \"large\": %.0f}\n", first, large.bytes_a_second());
    std::fflush(stdout);
  }
}
