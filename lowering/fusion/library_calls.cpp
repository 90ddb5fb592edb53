#include "lowering/fusion/library_calls.h"
#include <bit>
#include "ir/error.h"
#include "lowering/libraries/attention/attention.h"
#include "lowering/libraries/indexing.h"
#include "lowering/libraries/onednn.h"
#include "lowering/libraries/pooling/pooling.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/product/int4_mm.h"
#include "lowering/libraries/recurrent/recurrent.h"
#include "lowering/libraries/scan.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

using Call = std::unique_ptr<LibraryCall>;
struct Arguments {
  const ir::Node& node;
  std::span<const Layout> in, out;
  std::span<const PostOp> post_ops;
  Effort effort = Effort::Much;
};

int64_t groups(const ir::Attrs& a) { return a.number(5); }
bool is_transposed(const ir::Attrs& a) { return a.number(3) != 0; }
ConvolutionParams convolution_params(const ir::Attrs& a) {
  return {.stride = ir::Dims(a.list(0)),
          .padding = ir::Dims(a.list(1)),
          .dilation = ir::Dims(a.list(2)),
          .output_padding = ir::Dims(a.list(4)),
          .transposed = is_transposed(a),
          .groups = groups(a)};
}

Call matmul(const Arguments& a) { return make_matmul(a.in[0], a.in[1], a.out[0], a.post_ops, a.effort); }
Call int_mm(const Arguments& a) { return make_int_mm(a.in[0], a.in[1], a.out[0], a.effort); }
Call int4_mm(const Arguments& a) {
  const ir::Attrs& attrs = a.node.attrs;
  return make_int4_mm(a.in[0], a.in[1], a.in[2], a.out[0],
                      {.group = attrs.number(0), .block = attrs.number(1), .paired = attrs.number(2) != 0});
}
Call convolution(const Arguments& a) {
  return make_convolution(a.in[0], a.in[1], a.out[0], convolution_params(a.node.attrs), a.post_ops, a.effort);
}
Call convolution_input_grad(const Arguments& a) {
  return make_convolution_input_grad(a.in[0], a.in[1], a.out[0], convolution_params(a.node.attrs), a.effort);
}
Call convolution_weight_grad(const Arguments& a) {
  return make_convolution_weight_grad(a.in[0], a.in[1], a.out[0], convolution_params(a.node.attrs), a.effort);
}
PackedCall packed_matmul(const Arguments& a) { return make_packed_matmul(a.in[0], a.in[1], a.out[0], a.post_ops); }
PackedCall packed_int_mm(const Arguments& a) { return make_packed_int_mm(a.in[0], a.in[1], a.out[0], a.effort); }
PackedCall packed_convolution(const Arguments& a) {
  return make_packed_convolution(a.in[0], a.in[1], a.out[0], convolution_params(a.node.attrs), a.post_ops, a.effort);
}

PoolParams pool_window(const ir::Attrs& a) {
  PoolParams p;
  p.kernel = ir::Dims(a.list(0));
  p.stride = ir::Dims(a.list(1));
  p.padding = ir::Dims(a.list(2));
  return p;
}
PoolParams max_pool_params(const ir::Attrs& a) {
  PoolParams p = pool_window(a);
  p.dilation = ir::Dims(a.list(3));
  return p;
}
PoolParams avg_pool_params(const ir::Attrs& a) {
  PoolParams p = pool_window(a);
  p.count_include_pad = a.number(4) != 0;
  p.divisor_override = a.number(5);
  return p;
}

Call max_pool2d(const Arguments& a) {
  return make_max_pool2d(a.in[0], a.out[0], a.out[1], max_pool_params(a.node.attrs));
}
Call max_pool2d_grad(const Arguments& a) { return make_max_pool2d_grad(a.in[0], a.in[1], a.out[0]); }
Call avg_pool2d(const Arguments& a) { return make_avg_pool2d(a.in[0], a.out[0], avg_pool_params(a.node.attrs)); }
Call avg_pool2d_grad(const Arguments& a) {
  return make_avg_pool2d_grad(a.in[0], a.out[0], avg_pool_params(a.node.attrs));
}

template <ScatterMode mode>
Call scatter(const Arguments& a) {
  return make_scatter(a.in[0], a.in[1], a.in[2], a.out[0], a.node.attrs.number(0), mode);
}
template <ScatterMode mode>
Call write_slices(const Arguments& a) {
  return make_index_add(a.in[0], a.in[1], a.in[2], a.out[0], a.node.attrs.number(0), mode);
}
Call cumsum(const Arguments& a) { return make_cumsum(a.in[0], a.out[0], a.node.attrs.number(0)); }
Call cumprod(const Arguments& a) { return make_cumprod(a.in[0], a.out[0], a.node.attrs.number(0)); }
Call linear_recurrence(const Arguments& a) {
  return make_linear_recurrence(a.in[0], a.in[1], a.out[0], a.node.attrs.number(0), a.node.attrs.number(1) != 0);
}

AttentionParams attention_params(const ir::Attrs& a) {
  return {.scale = std::bit_cast<double>(a.number(0)), .causal = a.number(1) != 0};
}
const Layout* given(const Arguments& a, size_t operand) { return a.node.inputs[operand] ? &a.in[operand] : nullptr; }
Call attention(const Arguments& a) {
  return make_attention({a.in[0], a.in[1], a.in[2], given(a, 3)}, a.out[0], a.out[1], attention_params(a.node.attrs));
}
Call attention_backward(const Arguments& a) {
  return make_attention_backward(a.in[0], {a.in[1], a.in[2], a.in[3], given(a, 6)}, a.in[4], a.in[5],
                                 {a.out[0], a.out[1], a.out[2]}, attention_params(a.node.attrs));
}

RecurrentLayer recurrent_layer(const Arguments& a) {
  const auto cell = a.node.op == ir::Op::lstm_layer ? RecurrentLayer::Lstm : RecurrentLayer::Gru;
  return {cell, a.node.attrs.number(0) != 0, a.in[0], a.in[1]};
}
Call recurrent(const Arguments& a) { return make_recurrent(recurrent_layer(a)); }
PackedCall packed_recurrent(const Arguments& a) { return make_packed_recurrent(recurrent_layer(a)); }

struct Service {
  ir::Op op;
  Call (*make)(const Arguments&);
  bool post_ops = false;
  PackedCall (*make_packed)(const Arguments&) = nullptr;
  bool begins_with_a_copy = false;
};
const Service kServices[] = {
    {ir::Op::matmul, matmul, true, packed_matmul},
    {ir::Op::int_mm, int_mm, false, packed_int_mm},
    {ir::Op::int4_mm, int4_mm},
    {ir::Op::convolution, convolution, true, packed_convolution},
    {ir::Op::convolution_input_grad, convolution_input_grad},
    {ir::Op::convolution_weight_grad, convolution_weight_grad},
    {ir::Op::lstm_layer, recurrent, false, packed_recurrent},
    {ir::Op::gru_layer, recurrent, false, packed_recurrent},
    {ir::Op::attention, attention},
    {ir::Op::attention_backward, attention_backward},
    {ir::Op::max_pool2d, max_pool2d},
    {ir::Op::max_pool2d_grad, max_pool2d_grad},
    {ir::Op::avg_pool2d, avg_pool2d},
    {ir::Op::avg_pool2d_grad, avg_pool2d_grad},
    {.op = ir::Op::scatter, .make = scatter<ScatterMode::Assign>, .begins_with_a_copy = true},
    {.op = ir::Op::scatter_add, .make = scatter<ScatterMode::Add>, .begins_with_a_copy = true},
    {.op = ir::Op::index_add, .make = write_slices<ScatterMode::Add>, .begins_with_a_copy = true},
    {.op = ir::Op::index_copy, .make = write_slices<ScatterMode::Assign>, .begins_with_a_copy = true},
    {ir::Op::cumsum, cumsum},
    {ir::Op::cumprod, cumprod},
    {ir::Op::linear_recurrence, linear_recurrence},
};

const Service* service(ir::Op op) {
  for (const Service& e : kServices)
    if (e.op == op) return &e;
  return nullptr;
}

class CpuLibraries final : public Libraries {
 public:
  explicit CpuLibraries(Effort effort) : effort_(effort) {}
  bool serves(const ir::Node&) const override { return true; }
  bool begins_with_a_copy(const ir::Node& node) const override {
    const Service* s = service(node.op);
    return s && s->begins_with_a_copy;
  }
  bool sums_few_rows() const override { return true; }
  int64_t bytes_of_scores() const override { return int64_t{8} << 20; }
  bool multiply_bytes() const override { return true; }
  // A BLAS has no post-ops, and those of our own product are slower than a kernel that reads the float64 result again.
  bool takes(const ir::Node& node, std::span<const PostOp> ops) const override {
    if (is_for_blas(node)) return false;
    if (node.op == ir::Op::convolution &&
        !convolution_takes(node.types[0].dtype, is_transposed(node.attrs), ops, effort_))
      return false;
    const Service* e = service(node.op);
    return e && e->post_ops;
  }
  // Attention and recurrent layers read along rows, and numbers of 4 bits lie in an order of their own.
  bool reads(const ir::Node& node, const Layout& x) const override {
    const bool is_recurrent = ir::is_recurrent(node.op);
    if (node.op == ir::Op::int4_mm || (is_recurrent && x.shape.size() < 3)) return is_dense(x);
    if (node.op != ir::Op::attention && node.op != ir::Op::attention_backward && !is_recurrent) return true;
    return x.shape.empty() || x.shape.back() == 1 || x.strides.back() == 1;
  }
  // oneDNN turns row-major images to blocked ones and back at every call, and computes in channels-last as it is.
  ChannelsLast channels_last(const ir::Node& node) const override {
    if (!ir::info(node.op).images) return ChannelsLast::Never;
    if (!ir::is_contraction(node.op)) return ChannelsLast::Either;
    return onednn::supports(node.types[0].dtype) ? ChannelsLast::Images : ChannelsLast::Never;
  }
  // Where the largest were: only a derivative reads that.
  bool may_leave_out(const ir::Node& node, uint32_t result) const override {
    return node.op == ir::Op::max_pool2d && result == 1;
  }
  Call make(const ir::Node& node, std::span<const Layout> operands, std::span<const Layout> results,
            std::span<const PostOp> post_ops) const override {
    const Service* e = service(node.op);
    LAZULI_CHECK(e, "no library serves " + std::string(ir::name(node.op)));
    return e->make({node, operands, results, post_ops, effort_});
  }
  PackedCall make_packed(const ir::Node& node, std::span<const Layout> operands, std::span<const Layout> results,
                         std::span<const PostOp> post_ops) const override {
    const Service* e = service(node.op);
    return e && e->make_packed && !is_for_blas(node) ? e->make_packed({node, operands, results, post_ops, effort_})
                                                     : PackedCall{};
  }

 private:
  bool is_for_blas(const ir::Node& node) const {
    if (node.op != ir::Op::matmul) return false;
    const ir::DType type = node.types[0].dtype;
    return type == ir::DType::F64 || (type == ir::DType::F32 && effort_ == Effort::Little);
  }

  const Effort effort_;
};

}  // namespace

const Libraries& cpu_libraries(Effort effort) {
  static const CpuLibraries much(Effort::Much), little(Effort::Little);
  return effort == Effort::Much ? much : little;
}

}  // namespace lazuli::lowering
