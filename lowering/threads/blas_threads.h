// The number of threads of BLAS products.
#pragma once

// Weak, so that it is null where no loaded library has it: MKL's alone. Of the calling thread's products; returns what
// it was, and 0 is for unset.
extern "C" [[gnu::weak]] int MKL_Set_Num_Threads_Local(int threads);

namespace lazuli::lowering {

// MKL keeps a number of threads of its own for each thread; while this lives it is the one given. Another BLAS does not
// mind.
class BlasThreads {
 public:
  explicit BlasThreads(int threads) {
    if (can_be_set()) before_ = MKL_Set_Num_Threads_Local(threads);
  }
  ~BlasThreads() {
    if (can_be_set()) MKL_Set_Num_Threads_Local(before_);
  }
  BlasThreads(const BlasThreads&) = delete;

  static bool can_be_set() { return MKL_Set_Num_Threads_Local; }

 private:
  int before_ = 0;
};

}  // namespace lazuli::lowering
