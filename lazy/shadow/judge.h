// Whether what Lazuli computed differs from what eager would have computed by more than rounding explains. Shadow runs
// ask (shadow.h).
//
// Two right ways to compute a value differ by rounding, and by how much depends on the value: next to nothing in a sum
// of positive numbers, everything where two equal numbers are subtracted or a comparison is close. So where the two
// differ at all, the graph is computed once more in float64, which is the truth, and several times with each op's
// result moved at random by what rounding may move it (Monte Carlo arithmetic: Parker, Pierce and Eggert, Computing in
// Science & Engineering 2000): how far an element moves then is what rounding explains for that element. A difference
// is real if ours is further from the truth than several times that, and than several times eager's own error.
#pragma once
#include <optional>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

struct Difference {
  size_t output = 0;           // of the graph: the first one that differs
  std::vector<int64_t> index;  // of the element that differs most
  double ours = 0, eager = 0, exact = 0;
  double explained = 0;        // the distance from `exact` that rounding explains there
  int64_t elements = 0;        // that differ
  std::string shape;           // not empty: torch's kernel gives another shape, as this says
  uint32_t node = UINT32_MAX;  // then: whose
};

// `ours`: the graph's outputs, from these inputs and run-time numbers.
std::optional<Difference> judge(const ir::Graph& graph, std::span<const at::Tensor> inputs,
                                std::span<const int64_t> scalars, std::span<const at::Tensor> ours);

}  // namespace lazuli::lazy
