// What an executable is, as the report shows it: its graph, its steps and what its temporaries take.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <unordered_map>
#include <vector>
#include <ATen/core/ivalue.h>
#include "jit/dump.h"
#include "lowering/plan/plan.h"

namespace lazuli::lazy {

// Texts that occur many times, by number.
class Texts {
 public:
  int64_t number(const std::string& text);
  c10::List<std::string> list() const;

 private:
  std::unordered_map<std::string, int64_t> numbers_;
  std::vector<std::string> texts_;
};

// The different loop nests of what ran, each with the launch that had it first.
class Nests {
 public:
  int64_t number(std::span<const lowering::PlanStep> launch, const std::string& name);
  // The code of each: {"nest": ..., "ll": ..., "s" or "ptx": ...}. It is made now, which takes some milliseconds each.
  c10::impl::GenericList texts() const;

 private:
  struct Known {
    std::vector<lowering::PlanStep> launch;
    std::string name;
  };
  std::unordered_multimap<uint64_t, int64_t> by_hash_;
  std::vector<Known> known_;
};

// {"nodes": {op, text, line, inputs}, "steps": {kind, name, nodes, bytes, nest, line}, "arena", "fullest", ...}: lists
// in columns. Lines are numbers of `texts`.
c10::impl::GenericDict describe(const ir::Graph& graph, const lowering::Plan& plan, Texts& texts, Nests& nests);
// Of a graph that runs node by node: each node that is computed is a step.
c10::impl::GenericDict describe(const ir::Graph& graph, Texts& texts);

c10::impl::GenericDict new_dict();

}  // namespace lazuli::lazy
