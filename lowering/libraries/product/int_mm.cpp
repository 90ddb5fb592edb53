// Products of bytes, added up in int32: oneDNN's where the processor has instructions for them, else our own on copies.
#include "ir/error.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/product/gemm.h"
#include "lowering/libraries/staged_call.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"

namespace lazuli::lowering {
namespace {

void check_operands(const Layout& a, const Layout& b, const Layout& out) {
  const bool fits = a.shape.size() == 2 && b.shape.size() == 2 && out.shape == ir::Dims{a.shape[0], b.shape[1]} &&
                    a.shape[1] == b.shape[0];
  if (!fits) throw TypeError("int_mm: the operands' shapes do not fit");
}

bool is_plain(const Layout& l) {
  return (l.strides[1] == 1 && l.strides[0] >= l.shape[1]) || (l.strides[0] == 1 && l.strides[1] >= l.shape[0]);
}
bool is_empty(const Layout& a, const Layout& out) { return ir::product(out.shape) == 0 || a.shape[1] == 0; }

bool is_for_onednn(const Layout& a, const Layout& b, const Layout& out, Effort effort) {
  return effort == Effort::Much && onednn::multiplies_bytes() && is_plain(a) && is_plain(b) && is_plain(out);
}

// Our own product of int32, on copies.
class Widened final : public LibraryCall {
 public:
  Widened(const Layout& a, const Layout& b, const Layout& out)
      : given_{a, b},
        wide_{dense_layout(ir::DType::I32, a.shape), dense_layout(ir::DType::I32, b.shape)},
        product_(make_gemm(wide_[0], wide_[1], out, {})) {}

  void run(const void* const* operands, void* const* results, void* scratch) override {
    auto* at = static_cast<char*>(scratch);
    const void* wide[2];
    for (int i = 0; i < 2; ++i) {
      with_element_type(given_[i].dtype, [&](auto t) {
        widen(given_[i], static_cast<const decltype(t)*>(operands[i]), reinterpret_cast<int32_t*>(at));
      });
      wide[i] = at;
      at += bytes(i);
    }
    product_->run(wide, results, at);
  }
  size_t scratch_bytes() const override { return bytes(0) + bytes(1) + product_->scratch_bytes(); }
  std::string describe() const override { return product_->describe() + " of bytes"; }

 private:
  size_t bytes(int i) const { return round_up_64(extent_bytes(wide_[i])); }

  template <class T>
  static void widen(const Layout& from, const T* x, int32_t* to) {
    const int64_t rows = from.shape[0], columns = from.shape[1];
    share_out(rows, rows * columns > kWorthSharing, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i)
        for (int64_t j = 0; j < columns; ++j)
          to[i * columns + j] = static_cast<int32_t>(x[i * from.strides[0] + j * from.strides[1]]);
    });
  }
  static constexpr int64_t kWorthSharing = 16384;

  const Layout given_[2], wide_[2];
  const std::unique_ptr<LibraryCall> product_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_int_mm(const Layout& a, const Layout& b, const Layout& out, Effort effort) {
  check_operands(a, b, out);
  if (is_empty(a, out)) return make_zero_call(out, {}, 2);
  if (is_for_onednn(a, b, out, effort))
    if (auto call = onednn::matmul(a, b, out, {}, onednn::Inner::Given)) return call;
  return std::make_unique<Widened>(a, b, out);
}

PackedCall make_packed_int_mm(const Layout& a, const Layout& b, const Layout& out, Effort effort) {
  check_operands(a, b, out);
  if (is_empty(a, out) || !is_for_onednn(a, b, out, effort)) return {};
  return onednn::packed_matmul(a, b, out, {});
}

}  // namespace lazuli::lowering
