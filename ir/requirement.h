// What numbers have to be for an operator to take them, which shows only when it runs.
#pragma once
#include <cstdint>

namespace lazuli::ir {

enum class Requirement : int64_t {
  Deviation,    // a standard deviation is at least 0
  Probability,  // between 0 and 1
  Weights,      // of a distribution: finite and at least 0
  SomeWeight,   // their sum is above 0
  Input,        // of a loss: between 0 and 1
  Target,       // of a loss: between 0 and 1
  Class,        // one of several, by its number: at least 0
  KnownClass,   // below how many there are
  Quantile,     // between 0 and 1
};

}  // namespace lazuli::ir
