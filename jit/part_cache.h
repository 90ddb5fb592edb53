// Compiles listings in parts (ir/parts.h), and each distinct part once.
#pragma once
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include "ir/parts.h"
#include "jit/executable.h"

namespace lazuli::jit {

class PartCache {
 public:
  using LineText = std::string (*)(uint32_t);
  // `live`, `donated`: as ir::cut() takes them; the executable has the listing's inputs and run-time numbers, and `live` for
  // outputs. It outlives the cache. `line_text`: what an interned line says.
  std::unique_ptr<Executable> compile(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                      const std::vector<bool>& donated, const CompileOptions& options,
                                      LineText line_text);
  // Adds the numbers of the external calls in its parts.
  void find_external_calls(std::unordered_set<int64_t>& calls) const;
  size_t size() const { return found_.size(); }
  // How many parts to keep; those that were not used for longest are forgotten.
  void set_limit(size_t parts) { most_ = parts; }

 private:
  struct Known {
    uint64_t hash;
    std::vector<int64_t> code;
    std::vector<int64_t> external_calls;
    std::shared_ptr<Executable> executable;
  };
  using Order = std::list<Known>;  // the latest used first
  std::shared_ptr<Executable> find(uint64_t hash, std::span<const int64_t> code);
  std::shared_ptr<Executable> executable_for(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                                             uint64_t hash, const CompileOptions& options, LineText line_text,
                                             CompileStats& stats);
  void forget();

  Order known_;
  std::unordered_multimap<uint64_t, Order::iterator> found_;
  CompileOptions options_;  // under others there are none
  size_t most_ = 1'000;
};

}  // namespace lazuli::jit
