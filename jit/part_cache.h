// Compiles listings in parts (ir/parts.h), and each distinct part once.
#pragma once
#include <list>
#include <memory>
#include <unordered_map>
#include <unordered_set>
#include "ir/parts.h"
#include "jit/executable.h"
#include "jit/generic_part.h"

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
  size_t generic_plans() const { return generic_; }
  // How many parts to keep, and as many plans for other sizes; those that were not used for longest are forgotten.
  void set_limit(size_t parts) { most_ = parts; }

 private:
  // Parts of one code, whatever their numbers. Their plans for other numbers: the latest made first.
  struct Family {
    uint64_t hash;
    std::vector<int64_t> code;
    SeenNumbers seen;
    std::list<GenericPart> generic;
    int made = 0;  // of generic ones, or tried to
  };
  struct Known {
    uint64_t hash;
    std::vector<int64_t> numbers;
    std::shared_ptr<Family> family;
    std::vector<int64_t> external_calls;
    std::shared_ptr<Executable> executable;
  };
  using Order = std::list<Known>;  // the latest used first
  // A part with the hash of all of it, and of its code.
  struct Sought {
    const ir::Listing& listing;
    const ir::Parts& parts;
    size_t part;
    uint64_t hash, code_hash;
    LineText line_text;
    std::span<const int64_t> code() const { return parts.code_of(part); }
    std::span<const int64_t> numbers() const { return parts.numbers_of(part); }
  };
  std::shared_ptr<Executable> find(const Sought& sought);
  std::shared_ptr<Family> family_of(const Sought& sought);
  std::shared_ptr<Executable> executable_for(const Sought& sought, const CompileOptions& options, CompileStats& stats);
  std::shared_ptr<Executable> make(const Sought& sought, Family& family, const CompileOptions& options,
                                   CompileStats& stats);
  // Of a plan for other numbers, or one that serves these and others from now on; null where there can be none.
  std::shared_ptr<Executable> resized(const Sought& sought, Family& family, const CompileOptions& options,
                                      CompileStats& stats);
  void forget();
  void forget_generic();

  Order known_;
  std::unordered_multimap<uint64_t, Order::iterator> found_;
  std::unordered_multimap<uint64_t, std::weak_ptr<Family>> families_;  // those that known parts are of
  CompileOptions options_;  // under others there are none
  size_t most_ = 1'000, generic_ = 0;
};

}  // namespace lazuli::jit
