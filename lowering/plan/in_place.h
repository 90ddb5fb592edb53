// Which values may be written over a dying value's place: a kernel reads and writes every element at the same point of
// its loops, or a library's call begins with a copy of it, and nobody reads the old value afterwards. Of several such
// places a value takes that of the input which it is the next value of, as a parameter's: so parameters stay where
// they are from run to run.
#pragma once
#include <functional>
#include <span>
#include <vector>
#include "lowering/plan/plan.h"

namespace lazuli::lowering {

class InPlace {
 public:
  // `home` numbers the value whose memory a value shares; numbers are below `count`.
  InPlace(const ir::Graph& graph, const Libraries& libraries, std::span<const PlanStep> steps,
          const std::function<uint32_t(ir::Value)>& home, size_t count);
  // The home value whose place `target` may take when step `s` first writes it; kNoBlock if there is none.
  uint32_t taken_by(uint32_t s, uint32_t target) const;

 private:
  struct Taking {
    uint32_t step, target, taken;
  };
  bool matches(const Loops& loops, uint32_t store, uint32_t taken) const;
  bool copies(const Loops& loops, uint32_t store, uint32_t taken) const;
  bool later_uses_match(uint32_t s, uint32_t store, uint32_t target, uint32_t taken) const;
  void consider(uint32_t s);
  void consider_call(uint32_t s);
  // Gives `store` the place of the first load that may be taken; `only`: of this home value.
  bool take(uint32_t s, uint32_t store, uint32_t only);
  void find_origins(const ir::Graph& graph);

  std::span<const PlanStep> steps_;
  const std::function<uint32_t(ir::Value)>& home_;
  std::vector<ir::Size> bytes_;
  std::vector<uint8_t> kept_;                 // read after the run: outputs, inputs that are not donated
  std::vector<uint8_t> taken_;                // once only: who copied a value into its place still reads it there
  std::vector<std::vector<uint32_t>> users_;  // steps that read, by value
  std::vector<Taking> takings_;
  // By node: the home of the input that it is made of, first operand by first operand, as p - rate * m is of p; else
  // kNoBlock.
  std::vector<uint32_t> origins_;
};

}  // namespace lazuli::lowering
