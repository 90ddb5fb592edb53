#include "lazy/support/failure.h"
#include <c10/util/Exception.h>
#include "jit/run/executable.h"

namespace lazuli::lazy {

namespace {

using Kind = Failure::Kind;

Kind kind_of(const std::exception& e) {
  if (dynamic_cast<const jit::OutOfMemory*>(&e)) return Kind::OutOfMemory;
  if (dynamic_cast<const c10::OutOfMemoryError*>(&e)) return Kind::OutOfMemory;
  if (dynamic_cast<const c10::LinAlgError*>(&e)) return Kind::LinearAlgebra;
  if (dynamic_cast<const jit::IndexError*>(&e)) return Kind::Index;
  if (dynamic_cast<const lowering::IndexError*>(&e)) return Kind::Index;
  if (dynamic_cast<const c10::IndexError*>(&e)) return Kind::Index;
  if (dynamic_cast<const c10::ValueError*>(&e)) return Kind::Value;
  if (dynamic_cast<const c10::TypeError*>(&e)) return Kind::Type;
  if (dynamic_cast<const c10::NotImplementedError*>(&e)) return Kind::NotImplemented;
  try {
    std::rethrow_if_nested(e);
  } catch (const std::exception& cause) {
    return kind_of(cause);
  }
  return Kind::Plain;
}

}  // namespace

Failure Failure::of(const std::exception& e) {
  const auto* torchs = dynamic_cast<const c10::Error*>(&e);
  return {torchs ? torchs->what_without_backtrace() : e.what(), kind_of(e)};
}

void Failure::raise() const {
  TORCH_CHECK_WITH(OutOfMemoryError, kind != Kind::OutOfMemory, text);
  TORCH_CHECK_WITH(LinAlgError, kind != Kind::LinearAlgebra, text);
  TORCH_CHECK_WITH(IndexError, kind != Kind::Index, text);
  TORCH_CHECK_WITH(ValueError, kind != Kind::Value, text);
  TORCH_CHECK_WITH(TypeError, kind != Kind::Type, text);
  TORCH_CHECK_WITH(NotImplementedError, kind != Kind::NotImplemented, text);
  TORCH_CHECK(false, text);
}

}  // namespace lazuli::lazy
