// What lies in the packed weights of torch's quantized linear layers, which have no tensor that shows it. Torch's class
// for them is a virtual interface; which library packed them only the name of the object's own class says.
#pragma once
#include <optional>
#include <ATen/core/Tensor.h>
#include <ATen/native/quantized/PackedParams.h>

namespace lazuli::backend {

using PackedLinear = c10::intrusive_ptr<LinearPackedParamsBase>;

// Whether FBGEMM packed them, as int8, and adds up exact products of them and bytes: of those that make use of half of
// their range alone, or on a processor that does not add up in 16 bits.
bool are_exact(const LinearPackedParamsBase& packed, bool half_range);

// Such weights, [columns, depth] of a quantized type.
at::Tensor weights_of(LinearPackedParamsBase& packed);
// The bias itself, not a copy.
std::optional<at::Tensor> bias_of(LinearPackedParamsBase& packed);

}  // namespace lazuli::backend
