// Compiles graphs of which many end alike. Where one ends as an earlier one did, but begins with other sizes, it runs as two
// executables, and the second is the one that was made for that end before: only what comes before it is planned anew.
#pragma once
#include <deque>
#include <memory>
#include "jit/executable.h"

namespace lazuli::jit {

class SuffixCache {
 public:
  // As jit::compile() does; what it gives outlives the cache.
  std::unique_ptr<Executable> compile(ir::Graph graph, const CompileOptions& options);

 private:
  struct Suffix {
    size_t count;  // of nodes that are no leaves
    ir::Graph graph;
    std::shared_ptr<Executable> executable;
  };
  size_t suffix_of(const ir::Graph& graph) const;
  std::shared_ptr<Executable> executable_for(size_t count, ir::Graph suffix, const CompileOptions& options, bool& known);

  // The latest, newest first; under other options there are none.
  std::deque<ir::Graph> wholes_;
  std::deque<Suffix> suffixes_;
  CompileOptions options_;
};

}  // namespace lazuli::jit
