// Between torch's element types and scalars, and the IR's.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include "ir/type.h"

namespace lazuli::lazy {

// Opaque for types that no kernel of ours computes on and no IR name exists for (quantized, 8-bit floating, ...).
ir::DType to_ir(c10::ScalarType t);
// Throws InternalError for Opaque.
c10::ScalarType to_torch(ir::DType t);

inline ir::Dims to_dims(at::IntArrayRef v) { return ir::Dims(std::span<const int64_t>(v.data(), v.size())); }
inline at::IntArrayRef to_ref(const ir::Dims& d) { return {d.data(), d.size()}; }

// A run-time number as executables take it: bits of a double for floating types, the integer for the others.
int64_t scalar_bits(const c10::Scalar& s, ir::DType type);

}  // namespace lazuli::lazy
