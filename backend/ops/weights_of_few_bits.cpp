// Products with weights of 8 and of 4 bits, whose scales stand beside them.
#include <ATen/ATen.h>
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"
#include "lazy/memory/backing.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

// Rows that are multiplied where the weights become floats in registers; with more of them the matrix of floats
// pays.
constexpr int64_t kFewRows = 4;

bool is_matrix(const Tensor& t, at::ScalarType type) {
  return is_ours(t) && t.scalar_type() == type && t.dim() == 2 && t.is_contiguous();
}
// Of at most 32 bits; what eager's kernels for the host take.
bool is_multiplied(const Tensor& x) {
  return lazy::backing().has_host_kernels && is_floating(x) && x.scalar_type() != at::kDouble && x.dim() == 2 &&
         x.is_contiguous();
}

// [M, K] x [N, K] of bytes, each of whose rows has a scale.
Tensor weight_int8pack_mm(const Tensor& x, const Tensor& weight, const Tensor& scales) {
  const bool fits = is_multiplied(x) && is_matrix(weight, at::kChar) && is_ours(scales) &&
                    scales.scalar_type() == x.scalar_type() && x.size(1) == weight.size(1) && scales.dim() == 1 &&
                    scales.size(0) == weight.size(0);
  if (!fits) return fall_back<Tensor>("aten::_weight_int8pack_mm", "", x, weight, scales);
  lazy::Recording r;
  // Rounded once, after the scales: what they bring back may be out of a narrow type's range.
  const ir::DType type = lazy::to_ir(x.scalar_type()), wide = ir::compute_type(type);
  const ir::Value w = r.permute(r.convert(r.value(weight), wide), ir::Dims{1, 0});
  const ir::Value products = r.emit(ir::Op::matmul, {r.convert(r.value(x), wide), w});
  return r.tensor(r.convert(r.mul(products, r.convert(r.value(scales), wide)), type), x.scalar_type());
}

// How torch packs numbers of 4 bits (the row int4_mm): into blocks of how many rows depends on the processor, and on
// what torch was told of it. So it is seen in what torch makes of two columns that say which row it is.
struct Packing {
  int64_t block;
  bool paired;
};
Packing find_packing() {
  constexpr int64_t kRows = 64;
  const Tensor row = at::arange(kRows, at::kInt);
  const Tensor packed =
      at::_convert_weight_to_int4pack_for_cpu(at::stack({row.bitwise_and(15), row.__rshift__(4)}, 1), 1);
  const auto* bytes = packed.const_data_ptr<uint8_t>();
  for (int64_t block = kRows; block >= 16; block /= 2) {
    // The second column's bytes follow the first one's, half a block of them.
    const auto row_of = [&](int64_t byte, int shift) {
      return (bytes[byte] >> shift & 15) + 16 * (bytes[byte + block / 2] >> shift & 15);
    };
    bool apart = true, paired = true;
    for (int64_t byte = 0; byte < block / 2; ++byte) {
      apart = apart && row_of(byte, 0) == byte && row_of(byte, 4) == byte + block / 2;
      paired = paired && row_of(byte, 0) == 2 * byte && row_of(byte, 4) == 2 * byte + 1;
    }
    if (apart || paired) return {block, paired};
  }
  TORCH_CHECK(false, "lazuli: torch packs weights of 4 bits in an unknown order");
}
const Packing& packing() {
  static const Packing found = find_packing();
  return found;
}

// The numbers of 4 bits as [N, K] of float32.
Tensor unpacked(const Tensor& weight) {
  const auto [block, paired] = packing();
  const int64_t n = weight.size(0), k = 2 * weight.size(1), whole = n / block * block;
  const Tensor bytes = weight.view(-1), low = bytes.bitwise_and(15), high = bytes.__rshift__(4);
  std::vector<Tensor> parts;
  const auto add = [&](int64_t first, int64_t rows, at::IntArrayRef shape, int64_t dim, at::IntArrayRef order) {
    if (rows == 0) return;
    const auto part = [&](const Tensor& t) { return t.narrow(0, first * k / 2, rows * k / 2).view(shape); };
    parts.push_back(at::stack({part(low), part(high)}, dim).permute(order).reshape({rows, k}));
  };
  if (paired)
    add(0, whole, {whole / block, k, block / 2}, 3, {0, 2, 3, 1});
  else
    add(0, whole, {whole / block, k, block / 2}, 2, {0, 2, 3, 1});
  add(whole, n - whole, {k, (n - whole) / 2}, 2, {1, 2, 0});
  return at::cat(parts).to(at::kFloat);
}

// x [M, K] times the transpose of [N, K] of 4 bits, each group of whose rows has a scale and a zero.
Tensor weight_int4pack_mm(const Tensor& x, const Tensor& weight, int64_t group, const Tensor& scales) {
  const bool fits = is_multiplied(x) && is_matrix(weight, at::kByte) && x.size(1) == 2 * weight.size(1) &&
                    (group == 32 || group == 64 || group == 128 || group == 256) && x.size(1) % group == 0 &&
                    weight.size(0) % 16 == 0 && weight.numel() > 0 && is_ours(scales) && scales.is_contiguous() &&
                    scales.scalar_type() == x.scalar_type() &&
                    scales.sizes() == at::IntArrayRef({x.size(1) / group, weight.size(0), 2});
  if (!fits) return fall_back<Tensor>("aten::_weight_int4pack_mm_for_cpu", "", x, weight, group, scales);
  if (x.size(0) <= kFewRows) {
    lazy::Recording r;
    return r.tensor(r.emit(ir::Op::int4_mm, {r.value(x), r.value(weight), r.value(scales)},
                           ir::Attrs().add(group).add(packing().block).add(packing().paired)),
                    x.scalar_type());
  }
  const at::AutoDispatchBelowAutograd below;
  const auto factor = [&](int64_t i) { return scales.select(2, i).t().unsqueeze(2).to(at::kFloat); };
  const Tensor numbers = unpacked(weight).sub(8).view({weight.size(0), -1, group});
  const Tensor dense = numbers.mul(factor(0)).add(factor(1)).view({weight.size(0), x.size(1)});
  return at::mm(x.to(at::kFloat), dense.t()).to(x.scalar_type());
}

}  // namespace

void register_weights_of_few_bits(torch::Library& m) {
  m.impl("_weight_int8pack_mm", weight_int8pack_mm);
  m.impl("_weight_int4pack_mm_for_cpu", weight_int4pack_mm);
}

}  // namespace lazuli::backend
