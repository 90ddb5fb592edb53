// A graph computed one op at a time with torch's own kernels: what eager PyTorch would have computed, and how far
// rounding may take it. Shadow runs compare with it (shadow.h).
#pragma once
#include <map>
#include <string>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"

namespace lazuli::lazy {

struct Reference {
  enum class Numbers : uint8_t {
    Eager,   // in the types that the graph says
    Double,  // all floating values in float64
    Noisy,   // likewise, and each op's result moves by about what rounding to its type would move it
  };
  Numbers numbers = Numbers::Eager;
  bool decomposed = false;  // composites by their decompositions, rather than by torch's operators
  uint64_t seed = 0;        // of the noise

  // The graph's outputs. `inputs` are float64 or have the graph's types.
  std::vector<at::Tensor> run(const ir::Graph& graph, std::span<const at::Tensor> inputs,
                              std::span<const int64_t> scalars) const;
};

// Rows that torch's kernels did not compute, but the IR's interpreter did; by name, since somebody last took them.
std::map<std::string, int64_t> take_interpreted_rows();

// Whether torch's kernel gave a row another shape than the row says: no numbers can be compared then.
struct ShapeMismatch : std::runtime_error {
  ShapeMismatch(uint32_t node, const std::string& text) : std::runtime_error(text), node(node) {}
  uint32_t node;
};

// Autograd was to go through a row that torch's kernels did not compute.
struct NotDifferentiable : std::exception {};

// The distance between neighbouring numbers of the type near 1, and its smallest step.
struct Spacing {
  double relative = 0, absolute = 0;
};
Spacing spacing(ir::DType type);

}  // namespace lazuli::lazy
