// The operands of an op as torch hands them over, tensors and numbers mixed, and what they agree on: type, shape and
// memory order, by torch's own rules.
#pragma once
#include <optional>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TypeProperties.h>
#include <c10/util/SmallVector.h>
#include "lazy/record/recording.h"
#include "lazy/support/dimension_names.h"

namespace lazuli::backend {

struct Operand {
  const at::Tensor* tensor = nullptr;  // null: a number
  c10::Scalar number{};
  bool is_attribute = true;  // whether the number is none of the tensors that torch's kernel walks
};
using Operands = c10::SmallVector<Operand, 4>;

// Whether an optional operand was given.
inline bool has(const std::optional<at::Tensor>& t) { return t && t->defined(); }
inline bool is_number(const at::Tensor& t) { return t.is_cpu() && t.dim() == 0; }
// Whether a tensor of this type can hold about this number: an integer's type in its range, a floating one wherever it
// is finite or infinite there, too. Kernels that convert a number to the tensor's type raise an error where not.
bool holds(c10::ScalarType type, const c10::Scalar& number);
// Whether elements of the tensor can be set to the number.
inline bool takes(const at::Tensor& t, const c10::Scalar& number) {
  return !number.isComplex() && (t.scalar_type() == c10::kBool || holds(t.scalar_type(), number));
}
// Whether it is on the device and of a native type.
inline bool has_native_numbers(const at::Tensor& t) {
  return t.is_privateuseone() && ir::is_native(lazy::to_ir(t.scalar_type())) && t.layout() == c10::kStrided;
}
// Whether it is on the device and its dimensions have no names, whose rules are those of eager's kernels.
inline bool nameless_on_device(const c10::TensorImpl& t) {
  const uint64_t device = c10::DispatchKeySet(c10::BackendComponent::PrivateUse1Bit).raw_repr();
  const uint64_t names = lazy::key_of_names();
  return (t.key_set().raw_repr() & (device | names)) == device;
}
// Whether kernels of ours compute on it.
inline bool is_ours(const at::Tensor& t) {
  return has_native_numbers(t) && nameless_on_device(*t.unsafeGetTensorImpl());
}
// Whether several of its elements lie in one place, as far as torch looks: some operators refuse to write such, some
// warn.
inline bool overlaps_itself(const at::Tensor& t) { return at::has_internal_overlap(t) == at::MemOverlap::Yes; }
// Whether it shares its storage with one of these.
bool is_alias_of_any(const at::Tensor& t, std::initializer_list<const at::Tensor*> others);
// Whether kernels of ours may write it while these are read: its elements lie apart, and in a storage of their own. Of
// what is not so eager judges.
inline bool is_writable(const at::Tensor& out, std::initializer_list<const at::Tensor*> read) {
  return !overlaps_itself(out) && !is_alias_of_any(out, read);
}
inline bool is_floating(const at::Tensor& t) { return is_ours(t) && c10::isFloatingType(t.scalar_type()); }
bool covered(const Operands& operands);

c10::ScalarType promoted_type(const Operands& operands);
// Throws torch's broadcasting error.
ir::Dims broadcast_shape(const Operands& operands);
// The memory order that torch's elementwise kernels give the result: that of the operands, row-major when they differ
// in ways that leave it open.
lazy::Order result_order(const Operands& operands, const ir::Dims& shape,
                         c10::ScalarType common = c10::ScalarType::Undefined);
// The same from the operands' strides over the result's dimensions.
lazy::Order order_of_walks(const std::vector<ir::Dims>& strides, const ir::Dims& shape);
// Strides of an operand over the result's dimensions: 0 where it is broadcast.
ir::Dims aligned_strides(const at::Tensor& t, const ir::Dims& shape);

// Whether its strides are those of torch.empty(its sizes), in dimensions of size 1 too.
bool has_usual_strides(const at::Tensor& t);
// Lets a tensor that nothing reads yet lie in memory in this order.
void take_order(const at::Tensor& out, const lazy::Order& order);
// Gives it strides that tell of the same memory, or none.
void take_strides(const at::Tensor& out, const ir::Dims& strides);
// The same as empty_like(x) has, of the same sizes.
void take_strides_like(const at::Tensor& out, const at::Tensor& x);
// In dimensions of size 1 or 0, where memory does not show them, strides as torch's elementwise kernels leave them.
void take_strides_of_ones(const at::Tensor& out, const Operands& operands,
                          c10::ScalarType common = c10::ScalarType::Undefined);

// The operand as a value of this type, its dimensions in `order` (which is over `rank` dimensions).
ir::Value read(lazy::Recording& r, const Operand& o, ir::DType type, const lazy::Order& order);
c10::Scalar number_of(const at::Tensor& t);  // of a 0-dim CPU tensor
// Writes what was computed apart into `out`; one of another shape takes the result's, and its order in memory.
at::Tensor& store(at::Tensor& out, const at::Tensor& result);

}  // namespace lazuli::backend
