// Why a value could not be computed. Whoever reads it, or computes from it, is told so each time, by the same class of error.
#pragma once
#include <string>

namespace lazuli::lazy {

struct Failure {
  std::string text;
  bool out_of_memory = false;

  [[noreturn]] void raise() const;  // torch's error
};

}  // namespace lazuli::lazy
