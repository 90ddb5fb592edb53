// Compiles listings in parts (ir/parts.h), and each distinct part once.
#pragma once
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include "ir/parts.h"
#include "jit/parts/generic_part.h"
#include "jit/run/executable.h"

namespace lazuli::jit {

class PartsAhead;

class PartCache {
 public:
  using LineText = std::string (*)(uint32_t);
  // `live`, `donated`: as ir::cut() takes them; the executable has the listing's inputs and run-time numbers, and
  // `live` for outputs. It outlives the cache. `line_text`: what an interned line says. `ahead`: what has been made of
  // it already, if anything; what ran already makes it an executable for one run.
  std::unique_ptr<Executable> compile(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                      const std::vector<bool>& donated, const CompileOptions& options,
                                      LineText line_text, PartsAhead* ahead = nullptr);
  // The same if most parts would run without a plan; null otherwise.
  std::unique_ptr<Executable> compile_if_new(const ir::Listing& listing, std::span<const ir::ValueId> live,
                                             const std::vector<bool>& donated, const CompileOptions& options,
                                             LineText line_text);
  // What will become of the values of a part with this key (ir::key_of_entries), the listing's n-th, going by those
  // before.
  struct Expectation {
    const ir::Prospect* prospect = nullptr;  // null: there was none
    bool same_place = false;                 // the n-th was the last time, too
  };
  Expectation expectation(uint64_t key, size_t n) const;
  bool knows_prospects() const { return !prospects_.empty(); }
  // Whether somebody needed what such an entry computed the last time; nearly everything that is recorded is needed.
  bool was_needed(const ir::Listing& listing, uint32_t entry) const {
    return unneeded_.empty() || !unneeded_.contains(ir::key_of_place(listing, entry));
  }
  struct MadePart {
    std::shared_ptr<Executable> executable;
    CompileStats stats;
    uint64_t hash = 0;  // of code and numbers
  };
  // One part's executable, made if need be, for other sizes, too; none for parts that compile() has made no plan of,
  // and that may run without. `options`: those for_parts().
  MadePart executable_for(const ir::Listing& listing, const ir::Parts& parts, size_t part,
                          const CompileOptions& options, LineText line_text);
  static CompileOptions for_parts(CompileOptions options);
  // Adds the numbers of the external calls in its parts.
  void find_external_calls(std::unordered_set<int64_t>& calls) const;
  size_t size() const { return found_.size(); }
  size_t generic_plans() const { return generic_; }
  // How many parts to keep, and as many plans for other sizes; those that were not used for longest are forgotten.
  void set_limit(size_t parts) { most_ = parts; }

 private:
  struct Known;
  using Order = std::list<Known>;  // the latest used first
  // Parts of one code, whatever their numbers. Their plans for other numbers: the latest made first.
  struct Family {
    uint64_t hash;
    std::vector<int64_t> code;
    int threads;       // that its plans are for
    int listings = 0;  // that compile() met it in without a plan
    int64_t last = 0;  // the number of the last of them
    void meet(int64_t listing) { listings += last != listing, last = listing; }
    bool planned = false;
    SeenNumbers seen;
    std::list<GenericPart> generic;
    std::deque<Order::iterator> resized;  // parts that known plans were made to serve, the oldest first
    int made = 0;                         // of generic ones, or tried to
  };
  struct Known {
    uint64_t hash;
    std::vector<int64_t> numbers;
    std::shared_ptr<Family> family;
    std::vector<int64_t> external_calls;
    std::shared_ptr<Executable> executable;
    bool unplanned = false;
  };
  // A part with the hash of its code, and of all of it.
  struct Sought {
    Sought(const ir::Listing& l, const ir::Parts& p, size_t n, LineText text, int threads);
    const ir::Listing& listing;
    const ir::Parts& parts;
    const size_t part;
    const LineText line_text;
    const int threads;
    const uint64_t code_hash, hash;
    std::shared_ptr<Executable> compiled;  // for its own numbers, if that has been done
    std::shared_ptr<Executable> resized;   // the same of a plan for other numbers, which may be gone
    const GenericPart* plan = nullptr;
    double resizing_us = 0;
    std::list<GenericPart> generic;  // one plan or none: a new one that serves these numbers, and `resized` is of it
    std::span<const int64_t> code() const { return parts.code_of(part); }
    std::span<const int64_t> numbers() const { return parts.numbers_of(part); }
    bool gathers() const { return parts.gathers[part]; }
  };
  // A part that something is to be made for.
  struct Wanted {
    Sought* sought;
    std::shared_ptr<Family> family;
  };
  // Plans for other sizes of one code: how many are made before it is given up.
  static constexpr int kMostGeneric = 32;

  static ir::Graph graph_of(const Sought& sought);
  Known* find(const Sought& sought);
  std::unique_ptr<Executable> compile(const ir::Listing& listing, const ir::Parts& parts,
                                      std::span<const ir::ValueId> live, const CompileOptions& options,
                                      LineText line_text, PartsAhead* ahead, const HostCost& cutting);
  // If it was made of a plan that there is, few like it are kept.
  void keep_few(const MadePart& made, Order::iterator known);
  std::shared_ptr<Family> find_family(const Sought& sought) const;
  std::shared_ptr<Family> family_of(const Sought& sought);
  // Whether a part of this family (null: of a code that was never seen) runs without a plan: in the first two listings
  // that have it, and longer where the whole listing will soon have a plan. One that gathers always does: a plan would
  // do no better.
  bool is_unplanned(const Sought& sought, const Family* family, const CompileOptions& options) const;
  // On all threads, the first part of each code that has no plan yet and should have one.
  void compile_new(std::span<Sought* const> parts, const CompileOptions& options) const;
  // On all threads, what known plans for other numbers make of parts that are not known.
  void resize_known(std::span<Sought* const> parts, const CompileOptions& options);
  // On all threads, for the first part of each code that no known plan serves, a new one that serves other numbers.
  void make_new_generic(std::span<Sought* const> parts, const CompileOptions& options);
  // Whether another part of its code may get, or be served by, a plan that serves other numbers.
  bool may_get_generic(const Sought& sought, const CompileOptions& options) const;
  // Whether what no known plan serves gets a plan that serves other numbers, too.
  static bool wants_generic(const Sought& sought, const Family& family, const CompileOptions& options);
  // Throws ir::NotGeneric. `seen` has seen the part's numbers from then on.
  static GenericPart& make_generic(std::list<GenericPart>& to, const Sought& sought, SeenNumbers& seen,
                                   const CompileOptions& options);
  MadePart find_or_make(Sought& sought, const CompileOptions& options);
  // All of a listing's, as one after the other, but what takes long on all threads: in each round at most one part of
  // each code gets a plan, which may serve the others in the next.
  void find_or_make_all(std::vector<Sought>& parts, const CompileOptions& options,
                        const std::function<void(const Sought&, MadePart)>& take);
  void use(const CompileOptions& options);
  std::shared_ptr<Executable> make(Sought& sought, Family& family, const CompileOptions& options, CompileStats& stats);
  static Refusal refusal(const Sought& sought, const GenericPart& plan);
  // Of a plan for other numbers, or one that serves these and others from now on; null where there can be none.
  std::shared_ptr<Executable> resized(Sought& sought, Family& family, const CompileOptions& options,
                                      CompileStats& stats);
  // Of a plan that there is.
  static std::shared_ptr<Executable> of_known_plan(const Sought& sought, Family& family, const CompileOptions& options);
  static bool may_resize(const CompileOptions& options);
  // For parts that begin like this one.
  void learn(const ir::Listing& listing, const ir::Parts& parts, size_t part);
  void learn_needed(const ir::Listing& listing, uint32_t begin, uint32_t end, const ir::Prospect& prospect);
  void forget();
  void forget(Order::iterator known);
  void forget_generic();

  Order known_;
  std::unordered_multimap<uint64_t, Order::iterator> found_;
  std::unordered_multimap<uint64_t, std::weak_ptr<Family>> families_;  // those that known parts are of
  struct Experience {
    ir::Prospect prospect;
    int trust;
  };
  std::unordered_map<uint64_t, Experience> prospects_;  // by key, and by key and place
  std::unordered_set<uint64_t> unneeded_;               // places (ir::key_of_place)
  int64_t listing_ = 1;     // the number of the listing that is being compiled, or will be next
  CompileOptions options_;  // under others there are none
  size_t most_ = 1'000, generic_ = 0;
};

}  // namespace lazuli::jit
