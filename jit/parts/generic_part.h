// A part (ir/parts.h) compiled for numbers that may be others: what it makes runnable for each is planned once.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>
#include "ir/parts.h"
#include "ir/size_table.h"
#include "jit/run/executable.h"

namespace lazuli::jit {

// What has been seen of the numbers of parts with one code: which differ from time to time, which are always equal, and
// which are always the product of two others.
class SeenNumbers {
 public:
  struct Meaning {
    enum Kind : uint8_t {
      Constant,  // it has always been the same
      Symbol,    // number `index` of what differs
      Product,   // of numbers `index` and `index` + 1 of the part, as where a reshape joins two dimensions
    } kind;
    uint32_t index = 0;
  };
  void see(std::span<const int64_t> numbers);
  bool empty() const { return times_ == 0; }
  // Whether it was always these.
  bool only(std::span<const int64_t> numbers) const;
  // Any of them may differ.
  void expect_others() { varies_.assign(varies_.size(), true); }
  // By number; those that were always equal mean the same.
  std::vector<Meaning> meanings() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  void find_products(std::span<const int64_t> numbers);

  int64_t times_ = 0;
  std::vector<int64_t> first_;
  std::vector<uint32_t> group_;  // by number: those of one group were always equal
  std::vector<bool> varies_;
  std::vector<uint32_t> product_;  // by number: which two before it, the first of them, it has been the product of
};

class GenericPart {
 public:
  // Throws ir::NotGeneric where the part needs all its numbers.
  GenericPart(const ir::Listing& listing, const ir::Parts& parts, size_t part, std::string (*line_text)(uint32_t),
              const SeenNumbers& seen, const CompileOptions& options);
  // For a part of the same code, under the same options; null where a condition does not hold for its numbers.
  // Thread-safe.
  std::shared_ptr<Executable> executable(std::span<const int64_t> numbers, const CompileOptions& options) const;
  // Which condition does not hold for them; empty: all do.
  std::string why_not(std::span<const int64_t> numbers) const;
  // Of making it.
  const CompileStats& stats() const { return stats_; }

 private:
  class Instances;
  // The symbols' values; nothing where a number is another that must not be.
  std::optional<std::vector<int64_t>> symbols_of(std::span<const int64_t> numbers) const;

  std::vector<int64_t> numbers_;  // that it was made with
  std::vector<SeenNumbers::Meaning> meanings_;
  ir::SizeTable table_;
  std::shared_ptr<Instances> instances_;
  CompileStats stats_;
};

}  // namespace lazuli::jit
