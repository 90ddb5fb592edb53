// Why a value could not be computed. Whoever reads it, or computes from it, is told so each time, by the same class of
// error.
#pragma once
#include <cstdint>
#include <exception>
#include <string>

namespace lazuli::lazy {

struct Failure {
  // Torch's errors that Python knows by types of their own.
  enum class Kind : uint8_t { Plain, OutOfMemory, LinearAlgebra, Index, Value, Type, NotImplemented };
  std::string text;
  Kind kind = Kind::Plain;

  // Its kind is that of torch's error which it is, or by which it was caused.
  static Failure of(const std::exception& e);
  [[noreturn]] void raise() const;  // torch's error
};

}  // namespace lazuli::lazy
