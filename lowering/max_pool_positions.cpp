#include "lowering/max_pool_positions.h"
#include "ir/error.h"
#include "lowering/libraries/indexing.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

// [planes, height * width] of a dense [..., height, width].
Layout flat_planes(const Layout& x) {
  const size_t rank = x.shape.size();
  const int64_t plane = x.shape[rank - 1] * x.shape[rank - 2];
  const ir::Dims shape{ir::product({x.shape.data(), rank - 2}), plane};
  return {x.dtype, shape, ir::contiguous_strides(shape)};
}

class PoolFromPositions final : public LibraryCall {
 public:
  PoolFromPositions(const Layout& gy, const Layout& positions, const Layout& gx)
      : gy_(gy), dense_(dense_layout(gy.dtype, gy.shape)) {
    const Layout to = flat_planes(gx);
    scatter_ = make_scatter({gx.dtype, to.shape, {0, 0}}, flat_planes(positions), flat_planes(dense_), to, 1,
                            ScatterMode::Add);
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    char* rest = static_cast<char*>(scratch);
    strided_copy(gy_, operands[0], dense_, rest);
    const int64_t zero = 0;
    const void* in[] = {&zero, operands[1], rest};
    scatter_->run(in, results, rest + copy_bytes());
  }
  size_t scratch_bytes() const override { return copy_bytes() + scatter_->scratch_bytes(); }
  std::string describe() const override { return "max_pool_grad by position: " + scatter_->describe(); }

 private:
  size_t copy_bytes() const { return round_up_64(extent_bytes(dense_)); }

  Layout gy_, dense_;
  std::unique_ptr<LibraryCall> scatter_;
};

}  // namespace

std::unique_ptr<LibraryCall> make_max_pool_from_positions(const Layout& gy, const Layout& positions, const Layout& gx) {
  LAZULI_CHECK(gy.shape.size() >= 2 && positions.shape == gy.shape, "positions do not belong to this gradient");
  return std::make_unique<PoolFromPositions>(gy, positions, gx);
}

}  // namespace lazuli::lowering
