#include "lazy/rows/torch_rows.h"

#include <limits>
#include <ATen/ATen.h>
#include "ir/philox.h"
#include "lazy/rows/eager_rows.h"
#include "lazy/rows/torch_operators.h"
#include "lazy/support/convert.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using ir::Op;
using Tensors = std::vector<Tensor>;

Tensor random_uniform(const ir::Node& n, const Tensors& in) {
  const auto seed = in[0].item<int64_t>(), offset = in[1].item<int64_t>();
  const Tensor index = in[2].contiguous(),
               out = at::empty(index.sizes(), index.options().dtype(to_torch(n.types[0].dtype)));
  const auto* at = index.const_data_ptr<int64_t>();
  const auto draw = [&]<class T>(T* to, auto number) {
    lowering::share_out(index.numel(), index.numel() > 4096, [&](int64_t begin, int64_t end, int) {
      for (int64_t i = begin; i < end; ++i) to[i] = static_cast<T>(number(seed, offset, at[i]));
    });
  };
  switch (n.types[0].dtype) {
    case ir::DType::F32:
      draw(out.mutable_data_ptr<float>(), ir::philox_f32);
      return out;
    case ir::DType::F64:
      draw(out.mutable_data_ptr<double>(), ir::philox_f64);
      return out;
    default:
      return {};
  }
}

// The larger or smaller as the row says it: of equal zeros the first. Torch's kernels give the second where they
// compute a whole vector, and the first where they compute what is left.
Tensor first_of_equals(Tensor (*of_two)(const Tensor&, const Tensor&), const Tensor& a, const Tensor& b) {
  const Tensor either = of_two(a, b);
  return at::isFloatingType(either.scalar_type()) ? at::where(a == b, a, either) : either;
}

Tensor in_compute_type(const Tensor& x) { return at::isReducedFloatingType(x.scalar_type()) ? x.to(at::kFloat) : x; }

// Of -0 torch gives now one infinity, now the other.
Tensor gradient_of_logit(const Tensor& gy, const Tensor& x) {
  const Tensor wide = in_compute_type(x);
  const Tensor out_of_range = at::logical_or(wide < 0, wide > 1);
  return gy / at::where(out_of_range, std::numeric_limits<double>::quiet_NaN(), wide * (1 - wide));
}

// Rows that no operator computes as they stand.
std::optional<Tensor> special(const ir::Node& n, const Tensors& in, bool in_first) {
  const auto number = [&](size_t i) { return in[i].item(); };
  const auto first = [&](Tensor (*of_two)(const Tensor&, const Tensor&), const Tensor& a, const Tensor& b) {
    const Tensor made = first_of_equals(of_two, a, b);
    return in_first ? in[0].copy_(made) : made;
  };
  switch (n.op) {
    case Op::stands_for:
      return in[0];
    case Op::maximum:
      return first(at::maximum, in[0], in[1]);
    case Op::minimum:
      return first(at::minimum, in[0], in[1]);
    case Op::fmax:
      return first(at::fmax, in[0], in[1]);
    case Op::fmin:
      return first(at::fmin, in[0], in[1]);
    case Op::clamp:
      if (!in[1].dim() && !in[2].dim()) return {};
      return first(at::minimum, first_of_equals(at::maximum, in[0], in[1]), in[2]);
    case Op::clamp_min:
      if (!in[1].dim()) return {};
      return first(at::maximum, in[0], in[1]);
    case Op::clamp_max:
      if (!in[1].dim()) return {};
      return first(at::minimum, in[0], in[1]);
    case Op::logit_backward:
      return gradient_of_logit(in[0], in[1]);
    case Op::trunc_divide:
      return at::div(in[0], in[1], "trunc");
    case Op::add_scaled:
      if (in[2].dim()) return {};
      return in_first ? in[0].add_(in[1], number(2)) : at::add(in[0], in[1], number(2));
    case Op::multiply_add:
      return at::addcmul(in[2], in[0], in[1]);
    case Op::gelu_tanh:
      return at::gelu(in[0], "tanh");
    case Op::gelu_tanh_backward:
      return at::gelu_backward(in[0], in[1], "tanh");
    case Op::leaky_relu_backward:
      return at::leaky_relu_backward(in[0], in[1], number(2), false);
    case Op::elu_backward:
      return at::elu_backward(in[0], number(2), number(3), number(4), false, in[1]);
    case Op::log_sigmoid_backward:
      return in[0] * at::sigmoid(-in_compute_type(in[1]));
    case Op::lerp:  // with a weight that is a tensor it would be one of the operands' type
      if (in[2].dim()) return {};
      return in_first ? in[0].lerp_(in[1], number(2)) : at::lerp(in[0], in[1], number(2));
    // What they refuse our kernels have refused before.
    case Op::index_position:
      return at::where(in[0] < 0, in[0] + in[1], in[0]);
    case Op::check_index:
      return in[0].expand(to_ref(n.types[0].shape));
    case Op::require:
      return in[0];
    case Op::random_uniform:
      if (!in[2].is_cpu()) return {};
      if (Tensor drawn = random_uniform(n, in); drawn.defined()) return drawn;
      return {};
    default:
      return {};
  }
}

// Over no dimensions there is nothing to fold; operators that fold one dimension, or everything, fold several.
std::optional<Tensor> reduction(const ir::Node& n, const Tensor& x) {
  const auto dims = list_of(n.attrs, 0);
  const bool keep = n.attrs.number(1) != 0;
  const at::TensorOptions options = x.options().dtype(to_torch(n.types[0].dtype));
  switch (ir::info(n.op).combine) {
    case ir::Combine::ArgMax:
    case ir::Combine::ArgMin: {
      if (dims.empty()) return at::zeros(x.sizes(), options);
      const auto arg = ir::info(n.op).combine == ir::Combine::ArgMax ? &at::argmax : &at::argmin;
      if (dims.size() == 1) return arg(x, dims[0], keep);
      return arg(x, {}, false).reshape(to_ref(n.types[0].shape));
    }
    case ir::Combine::Prod: {
      Tensor y = x;
      for (size_t i = dims.size(); i-- > 0;) y = at::prod(y, dims[i], keep, x.scalar_type());
      return y;
    }
    case ir::Combine::Any:
    case ir::Combine::All:
      if (dims.empty()) return x.to(at::kBool);
      return {};
    default:
      if (dims.empty()) return x;
      return {};
  }
}

std::optional<Tensor> view(const ir::Node& n, const Tensor& x) {
  switch (n.op) {
    case Op::reshape:
      return at::reshape(x, list_of(n.attrs, 0));
    case Op::permute:
      return at::permute(x, list_of(n.attrs, 0));
    case Op::broadcast:
      return x.expand(list_of(n.attrs, 0));
    case Op::flip:
      return at::flip(x, list_of(n.attrs, 0));
    case Op::as_strided: {
      const Tensor base = x.contiguous();
      return at::as_strided(base, list_of(n.attrs, 0), list_of(n.attrs, 1), base.storage_offset() + n.attrs.number(2));
    }
    case Op::slice: {
      Tensor y = x;
      const auto starts = list_of(n.attrs, 0), sizes = list_of(n.attrs, 1), steps = list_of(n.attrs, 2);
      for (int64_t d = 0; d < x.dim(); ++d)
        y = at::slice(y, d, starts[d], sizes[d] ? starts[d] + (sizes[d] - 1) * steps[d] + 1 : starts[d], steps[d]);
      return y;
    }
    default:
      return {};
  }
}

std::optional<Tensor> index(const ir::Node& n, const Tensors& in) {
  switch (n.op) {
    case Op::as_strided_scatter: {
      const Tensor base = in[0].contiguous();
      return at::as_strided_scatter(base, in[1], in[1].sizes(), list_of(n.attrs, 0),
                                    base.storage_offset() + n.attrs.number(1));
    }
    case Op::pad: {
      const auto low = list_of(n.attrs, 0), high = list_of(n.attrs, 1);
      std::vector<int64_t> amounts;
      for (size_t d = low.size(); d-- > 0;) amounts.push_back(low[d]), amounts.push_back(high[d]);
      return at::constant_pad_nd(in[0], amounts, in[1].item());
    }
    case Op::index_select:
      return at::index_select(in[0], n.attrs.number(0), in[1].flatten().to(at::kLong))
          .reshape(to_ref(n.types[0].shape));
    default:
      return {};
  }
}

}  // namespace

std::optional<Tensors> torch_row(const ir::Node& node, const Tensors& in, bool in_first) {
  std::optional<Tensor> one;
  switch (ir::info(node.op).kind) {
    case ir::Kind::Elementwise:
      one = special(node, in, in_first);
      break;
    case ir::Kind::Reduction:
      one = reduction(node, in[0]);
      break;
    case ir::Kind::View:
      one = view(node, in[0]);
      break;
    case ir::Kind::Index:
      one = index(node, in);
      break;
    case ir::Kind::Composite:
      return torch_composite(node, in);
    default:
      break;
  }
  if (one) return Tensors{*std::move(one)};
  if (auto made = call_eager_row(node, in)) return made;
  return call_operator(node, in, in_first);
}

}  // namespace lazuli::lazy
