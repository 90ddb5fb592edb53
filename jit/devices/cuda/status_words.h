// Where kernels on a GPU report failed checks: words in the host's memory, so that looking costs no copy. A failure
// shows once the kernel has run, so whoever waits for the GPU looks afterwards.
#pragma once
#include <mutex>
#include <string>
#include <vector>
#include "jit/devices/cuda/driver.h"

namespace lazuli::jit::cuda {

class StatusWords {
 public:
  explicit StatusWords(const Context& context) : context_(context) {}
  // A word for a kernel whose checks, by number, say `texts` when they fail. Given back by release().
  int64_t* take(std::vector<std::string> texts);
  void release(int64_t* word);
  // Throws ExecutionError for one check that has failed since the last call, and forgets the others.
  void raise();

 private:
  static constexpr size_t kWords = 512;  // of a page
  struct Word {
    int64_t* at;
    std::vector<std::string> texts;  // empty: free
  };
  const Context& context_;
  std::mutex mutex_;
  std::vector<Word> words_;
};

}  // namespace lazuli::jit::cuda
