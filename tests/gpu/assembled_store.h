// What became of PTX that was assembled before: a file in the cache folder with a line for each kernel, so that a run
// of the tests assembles only what has changed since the last one. Kernels that failed are not in it.
#pragma once
#include <mutex>
#include <string>
#include <unordered_map>

#include "tests/gpu/assembler.h"

namespace lazuli::testing {

class AssembledStore {
 public:
  static AssembledStore& get();
  // False for what is not known, and for an empty key.
  bool find(const std::string& key, Assembled& into);
  void add(const std::string& key, const Assembled& a);

 private:
  AssembledStore();
  std::mutex mutex_;
  std::string path_;  // empty: nothing is kept
  std::unordered_map<std::string, Assembled> known_;
};

}  // namespace lazuli::testing
