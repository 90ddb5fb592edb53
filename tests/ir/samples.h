// At least one application of every differentiable row, in f64: what the derivative tests run over. Elementwise rows
// make their own from the table; the others are text.
#pragma once
#include "ir/builder.h"
#include "ir/parse.h"

namespace lazuli::ir::testing {

struct Sample {
  std::string name;
  Graph graph;
  double low = 0.3, high = 0.9;  // the range of floating inputs
};

std::vector<Sample> elementwise_samples();
std::vector<Sample> other_samples();

}  // namespace lazuli::ir::testing
