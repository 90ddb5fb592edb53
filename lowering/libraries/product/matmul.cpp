// Chooses who computes a matrix product, and in which layouts.
#include <algorithm>
#include <stdexcept>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/product/blas_product.h"
#include "lowering/libraries/product/gemm.h"
#include "lowering/libraries/product/host_blas.h"
#include "lowering/libraries/product/matmul_operands.h"
#include "lowering/libraries/product/row_product.h"
#include "lowering/libraries/product/tiny_products.h"
#include "lowering/libraries/staged_call.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/libraries/transpose.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering {
namespace {

using ir::DType;

// Whether no two elements share a place, but along dimensions that are broadcast.
bool lies_apart(const Layout& l) {
  std::vector<std::pair<int64_t, int64_t>> walks;  // stride and size
  for (size_t d = 0; d < l.shape.size(); ++d)
    if (l.shape[d] > 1 && l.strides[d] != 0) walks.emplace_back(l.strides[d], l.shape[d]);
  std::ranges::sort(walks);
  int64_t extent = 1;
  for (auto [stride, size] : walks) {
    if (stride < extent) return false;
    extent = stride * size;
  }
  return true;
}

// One of the two matrix dimensions is contiguous, and no other folds back onto it.
bool plain_matrix(const Layout& l) {
  if (!lies_apart(l)) return false;
  const size_t rank = l.shape.size();
  const int64_t rows = l.shape[rank - 2], columns = l.shape[rank - 1];
  const int64_t down = l.strides[rank - 2], along = l.strides[rank - 1];
  return (along == 1 && (down >= columns || rows == 1)) || (down == 1 && (along >= rows || columns == 1));
}

Layout transposed(Layout l) {
  const size_t rank = l.shape.size();
  std::swap(l.shape[rank - 2], l.shape[rank - 1]);
  std::swap(l.strides[rank - 2], l.strides[rank - 1]);
  return l;
}

// Merges batch dimensions that every operand steps through evenly: oneDNN is fastest with one.
void merge_batches(std::vector<Layout*> layouts) {
  for (size_t d = layouts[0]->shape.size() - 2; d-- > 1;) {
    bool even = true;
    for (const Layout* l : layouts) even &= l->strides[d - 1] == l->strides[d] * l->shape[d];
    if (!even) continue;
    for (Layout* l : layouts) {
      l->shape[d] *= l->shape[d - 1];
      l->shape.erase(d - 1);
      l->strides.erase(d - 1);
    }
  }
}

// A single row is contiguous along its own dimension, whatever its stride.
void settle_row(Layout& l) {
  const size_t rank = l.shape.size();
  if (l.shape[rank - 2] == 1 && l.strides[rank - 1] != 1) l.strides[rank - 2] = 1;
}

struct Product {
  Layout a, b, out;
  std::vector<PostOp> ops;
};

// The same product with single-element dimensions, batches and post-op operands in one canonical form.
Product canonical(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops) {
  Product p{with_canonical_strides(a), with_canonical_strides(b), with_canonical_strides(out),
            broadcast_post_ops(ops, out.shape)};
  settle_row(p.a);
  settle_row(p.b);
  std::vector<Layout*> all{&p.a, &p.b, &p.out};
  for (PostOp& op : p.ops)
    if (has_operand(op)) all.push_back(&op.operand);
  merge_batches(all);
  return p;
}

// Whether reordering b before the product costs less than reading it in plain order throughout. The numbers of rows
// from which it does were measured with `tools/bench libraries`.
onednn::Inner b_layout_for(const Product& p) {
  if (p.out.shape.size() > 2) return onednn::Inner::Given;
  const bool straight = p.b.strides[1] == 1, bf16 = p.b.dtype == DType::BF16;
  const int64_t enough = straight ? (bf16 ? 32 : 512) : (bf16 ? 1536 : 1024);
  return p.out.shape[0] >= enough ? onednn::Inner::Best : onednn::Inner::Given;
}

// oneDNN is slow at repacking many small transposed float32 operands inside the product: transposing them first saves
// 15 % on attention scores. For one big operand it does not pay.
bool transpose_first(const Product& p) {
  const size_t rank = p.out.shape.size();
  return can_transpose() && rank > 2 && p.b.dtype == DType::F32 && p.b.strides[rank - 2] == 1 &&
         p.b.strides[rank - 1] != 1 && p.out.shape[rank - 2] >= 16;
}

std::unique_ptr<LibraryCall> product(const Product& p) {
  const onednn::Inner inner = b_layout_for(p);
  auto call = onednn::matmul(p.a, p.b, p.out, p.ops, inner);
  if (!call && inner == onednn::Inner::Best) call = onednn::matmul(p.a, p.b, p.out, p.ops, onednn::Inner::Given);
  return call;
}

// oneDNN's product with the operands that it cannot take copied to plain ones, in `type`.
std::unique_ptr<LibraryCall> staged_product(const Product& p, DType type_in, DType type_out, bool post_ops_inside) {
  Product inner = p;
  Staging staging;
  const auto stage = [&](Layout& l, DType type, bool always = false) {
    std::optional<Staging::Copy> copy;
    const Layout given = l;
    if (always || l.dtype != type || !plain_matrix(l)) l = dense_layout(type, l.shape), copy = {given, l};
    staging.operands.push_back(copy);
  };
  stage(inner.a, type_in);
  stage(inner.b, type_in, transpose_first(p));
  stage(inner.out, type_out);
  if (staging.operands.back()) staging.result = {inner.out, p.out};
  staging.operands.pop_back();
  for (PostOp& op : inner.ops)
    if (has_operand(op)) {
      std::optional<Staging::Copy> copy;
      const bool known = onednn::supports(op.operand.dtype);
      if (!known || !packed_like(op.operand, inner.out)) {
        const Layout given = op.operand;
        Layout dense = given;
        for (size_t d = 0; d < dense.shape.size(); ++d)
          if (given.strides[d] == 0) dense.shape[d] = 1;
        const Layout source{given.dtype, dense.shape, given.strides};
        dense = dense_layout(known ? given.dtype : DType::F32, dense.shape);
        copy = {source, dense};
        op.operand = broadcast_to(dense, given.shape);
      }
      staging.operands.push_back(copy);
    }
  if (!post_ops_inside) {
    staging.post_ops = std::move(inner.ops);
    staging.result_layout = inner.out;
    staging.post_op_operands_at = 2;
    inner.ops.clear();
  }
  return make_staged_call(product(inner), std::move(staging));
}

std::unique_ptr<LibraryCall> onednn_product(const Product& p) {
  if (!ir::is_floating(p.out.dtype) || p.out.dtype == DType::F64 || p.a.dtype == DType::F64) return nullptr;
  const DType in = onednn::supports(p.a.dtype) ? p.a.dtype : DType::F32;
  const DType out = onednn::supports(p.out.dtype) ? p.out.dtype : DType::F32;
  auto call = staged_product(p, in, out, true);
  if (!call && !p.ops.empty()) call = staged_product(p, in, DType::F32, false);
  return call;
}

// What is left to do after a call that computes the product alone.
Staging post_ops_after(const Product& p) {
  Staging staging;
  staging.operands.resize(2 + static_cast<size_t>(std::ranges::count_if(p.ops, has_operand)));
  staging.post_ops = p.ops;
  staging.result_layout = p.out;
  staging.post_op_operands_at = 2;
  return staging;
}

// The BLAS's product with the operands that it cannot read where they lie copied to plain ones.
std::unique_ptr<LibraryCall> host_blas_product(const Product& p) {
  Product inner = p;
  Staging staging = post_ops_after(p);
  size_t i = 0;
  for (Layout* l : {&inner.a, &inner.b}) {
    const Layout given = *l;
    if (!blas_reads(given)) *l = dense_layout(given.dtype, given.shape), staging.operands[i] = {given, *l};
    ++i;
  }
  if (!blas_writes(p.out, nullptr, false)) {
    inner.out = dense_layout(p.out.dtype, p.out.shape);
    staging.result = {inner.out, p.out};
  }
  staging.result_layout = inner.out;
  return make_staged_call(make_host_blas_product(inner.a, inner.b, inner.out), std::move(staging));
}

// Runs a call whose first two operands are the other way round.
class SwappedCall final : public LibraryCall {
 public:
  SwappedCall(std::unique_ptr<LibraryCall> call, size_t operands) : call_(std::move(call)), operands_(operands) {}
  void run(const void* const* operands, void* const* results, void* scratch) override {
    operands_[0] = operands[1], operands_[1] = operands[0];
    std::copy(operands + 2, operands + operands_.size(), operands_.begin() + 2);
    call_->run(operands_.data(), results, scratch);
  }
  size_t scratch_bytes() const override { return call_->scratch_bytes(); }
  std::string describe() const override { return call_->describe() + " (transposed)"; }
  bool depends_on_threads() const override { return call_->depends_on_threads(); }

 private:
  std::unique_ptr<LibraryCall> call_;
  std::vector<const void*> operands_;
};

bool is_float32(const Product& p) {
  return p.a.dtype == DType::F32 && p.b.dtype == DType::F32 && p.out.dtype == DType::F32;
}

// Whether our own product is the fastest. On processors without AVX-512: of all that is not small, where making the
// call must cost little, so that the other choice is a BLAS; else of gradients of weights, whose first operand is
// transposed. For those oneDNN falls to half its speed for many sizes, such as rows of 1,024 elements. On processors
// with AVX-512: where making the call must cost little and the BLAS does not use it (16 x 512 x 128: 115 against 82
// GFLOP/s, 512 x 128 x 16: 189 against 95; oneDNN has 210 and 240, but takes 10 us to make the call, and gives other
// bits with other threads). Measured with `tools/bench libraries`.
bool is_for_gemm(const Product& p, Effort effort) {
  constexpr int64_t kFew = 48, kEnough = 1 << 15;
  const size_t rank = p.out.shape.size(), row = rank - 2, column = rank - 1;
  if (p.out.strides[column] != 1 || !is_float32(p)) return false;
  const int64_t rows = p.out.shape[row], columns = p.out.shape[column], depth = p.a.shape[column];
  if (host_instruction_set() == InstructionSet::Avx512) {
    const int64_t few = p.b.strides[column] == 1 ? 16 : 24;
    return effort == Effort::Little && !host_blas_is_as_wide() && p.ops.empty() && rows >= few && columns >= 32;
  }
  if (effort == Effort::Little) {
    // What is packed for few elements of the result costs more than it saves.
    const bool plain = p.a.strides[column] == 1 && p.b.strides[column] == 1;
    const int64_t few = plain && columns <= 64 ? kFew / 2 : kFew;
    return p.ops.empty() && rows >= few && columns >= few && (plain || depth >= few);
  }
  return rank == 2 && std::min({rows, columns, depth}) >= kFew && rows * columns >= kEnough && p.a.strides[0] == 1;
}

// Whether a BLAS is the better choice in any case: it begins five times faster than a primitive of oneDNN, which takes
// a microsecond, and our post-ops on a result in the first cache cost less than oneDNN's after a product. One thread
// computes it. Those of oneDNN wait for each other, a hundred times as long as the product takes where other processes
// have the cores. (From twice as many products on, oneDNN's packed weights are better: 205 against 263 us for ten
// layers of 64 x 128 x 128, two threads of a quiet machine.)
bool is_quick_by_blas(const Product& p) {
  constexpr int64_t kQuick = 512 << 10;
  return is_float32(p) && ir::product(p.out.shape) * p.a.shape.back() <= kQuick;
}

// A BLAS is slow at many rows of a few columns. Our own product is better where vectors are not wider than those rows.
bool is_narrow(const Product& p) {
  constexpr int64_t kNarrow = 16;
  return p.out.shape[p.out.shape.size() - 2] > kNarrow && p.out.shape.back() < kNarrow && p.out.strides.back() == 1;
}

std::unique_ptr<LibraryCall> any_product(const Product& p, Effort effort) {
  const size_t rank = p.out.shape.size();
  if (ir::product(p.out.shape) == 0 || p.a.shape[rank - 1] == 0) return make_zero_call(p.out, p.ops, 2);
  if (are_tiny_products(p.a, p.b, p.out))
    return make_staged_call(make_tiny_products(p.a, p.b, p.out), post_ops_after(p));
  const bool quick = is_quick_by_blas(p), narrow = quick && is_narrow(p);
  if (is_for_gemm(p, effort) || (narrow && host_instruction_set() != InstructionSet::Avx512))
    return make_gemm(p.a, p.b, p.out, p.ops);
  if (auto call = make_row_product(p.a, p.b, p.out, p.ops)) return call;
  if ((quick && !narrow) || effort == Effort::Little)
    if (auto call = host_blas_product(p)) return call;
  if (auto call = onednn_product(p)) return call;
  if (auto call = host_blas_product(p)) return call;
  return make_gemm(p.a, p.b, p.out, p.ops);
}

}  // namespace

std::unique_ptr<LibraryCall> make_matmul(const Layout& a, const Layout& b, const Layout& out,
                                         std::span<const PostOp> post_ops, Effort effort) {
  check_matmul_operands(a, b, out);
  Product p = canonical(a, b, out, post_ops);
  const size_t rank = p.out.shape.size();
  // A column-major result is the row-major result of the transposed product, whose operands change places. So is a
  // matrix times a vector, which is then a row product.
  const bool column_major = p.out.strides[rank - 1] != 1 && p.out.strides[rank - 2] == 1;
  const bool dense = p.a.strides[rank - 1] == 1 || (rank == 2 && p.a.strides[0] == 1);
  const bool times_vector = p.out.shape[rank - 1] == 1 && p.out.shape[rank - 2] > 1 && dense;
  if (!column_major && !times_vector) return any_product(p, effort);
  size_t operands = 2;
  for (PostOp& op : p.ops)
    if (has_operand(op)) op.operand = transposed(op.operand), ++operands;
  return std::make_unique<SwappedCall>(
      any_product(canonical(transposed(p.b), transposed(p.a), transposed(p.out), p.ops), effort), operands);
}

PackedCall make_packed_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> post_ops) {
  check_matmul_operands(a, b, out);
  if (ir::product(out.shape) == 0 || ir::product(a.shape) == 0) return {};
  const Product p = canonical(a, b, out, post_ops);
  if (p.out.strides.back() != 1 || are_tiny_products(p.a, p.b, p.out) || is_quick_by_blas(p) ||
      make_row_product(p.a, p.b, p.out, p.ops))
    return {};
  for (const Layout* l : {&p.a, &p.b, &p.out})
    if (!plain_matrix(*l) || !onednn::supports(l->dtype)) return {};
  for (const PostOp& op : p.ops)
    if (has_operand(op) && !packed_like(op.operand, p.out)) return {};
  return onednn::packed_matmul(p.a, p.b, p.out, p.ops);
}

}  // namespace lazuli::lowering
