#include "lazy/rows/torch_rows.h"

#include <array>
#include <sstream>
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include "ir/philox.h"
#include "lazy/rows/eager_rows.h"
#include "lazy/support/convert.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using ir::Op;
using Tensors = std::vector<Tensor>;

at::IntArrayRef list(const ir::Node& n, size_t i) {
  const auto l = n.attrs.list(i);
  return {ir::numbers(l).data(), l.size()};
}

// An operator that a row names, and how its arguments are filled: operands in order, the rest at its default.
struct Operator {
  enum class Fill : uint8_t { Tensor, Number, ValueOrDefault, Default, Required };
  c10::OperatorHandle handle;
  std::optional<c10::OperatorHandle> in_place;  // the same in the first operand's memory
  std::vector<Fill> fill;
};

Operator::Fill fill_of(const c10::Argument& a) {
  if (a.kwarg_only())
    return a.name() == "value" ? Operator::Fill::ValueOrDefault
           : a.default_value() ? Operator::Fill::Default
                               : Operator::Fill::Required;
  auto type = a.type();
  if (auto optional = type->cast<c10::OptionalType>()) type = optional->getElementType();
  if (type->kind() == c10::TypeKind::TensorType) return Operator::Fill::Tensor;
  if (type->kind() == c10::TypeKind::NumberType) return Operator::Fill::Number;
  return a.default_value() ? Operator::Fill::Default : Operator::Fill::Required;
}

std::vector<Operator> find_operators(Op op) {
  std::vector<Operator> found;
  std::istringstream names{std::string(ir::info(op).aten)};
  for (std::string name; names >> name;) {
    const size_t dot = name.find('.');
    const std::string overload = dot == name.npos ? "" : name.substr(dot + 1);
    const auto handle = c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot), overload});
    if (!handle) continue;
    found.push_back(
        {*handle, c10::Dispatcher::singleton().findSchema({"aten::" + name.substr(0, dot) + "_", overload}), {}});
    for (const c10::Argument& a : handle->schema().arguments()) found.back().fill.push_back(fill_of(a));
  }
  return found;
}

const std::vector<Operator>& operators_of(Op op) {
  static const auto* all = [] {
    auto* table = new std::array<std::vector<Operator>, ir::kOpCount>;
    for (size_t i = 0; i < ir::kOpCount; ++i)
      if (ir::is_elementwise(static_cast<Op>(i))) (*table)[i] = find_operators(static_cast<Op>(i));
    return table;
  }();
  return (*all)[static_cast<size_t>(op)];
}

// The arguments from these operands; false if they do not fit.
bool fill(const Operator& op, const Tensors& in, torch::jit::Stack& stack) {
  using Fill = Operator::Fill;
  size_t next = 0;
  const auto is_number = [&] { return next < in.size() && in[next].defined() && in[next].dim() == 0; };
  for (size_t i = 0; i < op.fill.size(); ++i) {
    Fill how = op.fill[i];
    const c10::Argument& a = op.handle.schema().arguments()[i];
    if (how == Fill::ValueOrDefault) how = is_number() ? Fill::Number : Fill::Default;
    if (next == in.size() && (how == Fill::Tensor || how == Fill::Number)) how = Fill::Default;
    if (how == Fill::Tensor)
      stack.emplace_back(in[next++]);
    else if (how == Fill::Number && is_number())
      stack.emplace_back(in[next++].item());
    else if (how == Fill::Default && a.default_value())
      stack.push_back(*a.default_value());
    else
      return false;
  }
  return next == in.size();
}

std::optional<Tensors> by_name(Op op, const Tensors& in, bool in_first) {
  for (const Operator& candidate : operators_of(op)) {
    torch::jit::Stack stack;
    if (!fill(candidate, in, stack)) continue;
    (in_first && candidate.in_place ? *candidate.in_place : candidate.handle).callBoxed(stack);
    return Tensors{stack[0].toTensor()};
  }
  return {};
}

Tensor random_uniform(const ir::Node& n, const Tensors& in) {
  const auto seed = in[0].item<int64_t>(), offset = in[1].item<int64_t>();
  const Tensor index = in[2].contiguous(),
               out = at::empty(index.sizes(), index.options().dtype(to_torch(n.types[0].dtype)));
  const auto* at = index.const_data_ptr<int64_t>();
  const auto draw = [&]<class T>(T* to, auto number) {
    at::parallel_for(0, index.numel(), 4'096, [&](int64_t begin, int64_t end) {
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

// Rows that no operator's name says everything of.
std::optional<Tensor> special(const ir::Node& n, const Tensors& in) {
  const auto number = [&](size_t i) { return in[i].item(); };
  switch (n.op) {
    case Op::detach:
      return in[0].detach();
    case Op::stands_for:
      return in[0];
    case Op::square:
      return at::square(in[0]);
    case Op::trunc_divide:
      return at::div(in[0], in[1], "trunc");
    case Op::add_scaled:
      if (in[2].dim()) return {};
      return at::add(in[0], in[1], number(2));
    case Op::multiply_add:
      return at::addcmul(in[2], in[0], in[1]);
    case Op::log_sigmoid:
      return at::log_sigmoid(in[0]);
    case Op::relu6:
      return at::hardtanh(in[0], 0, 6);
    case Op::gelu:
      return at::gelu(in[0], "none");
    case Op::gelu_tanh:
      return at::gelu(in[0], "tanh");
    case Op::gelu_backward:
      return at::gelu_backward(in[0], in[1], "none");
    case Op::gelu_tanh_backward:
      return at::gelu_backward(in[0], in[1], "tanh");
    case Op::leaky_relu_backward:
      return at::leaky_relu_backward(in[0], in[1], number(2), false);
    case Op::elu_backward:
      return at::elu_backward(in[0], number(2), number(3), number(4), false, in[1]);
    case Op::log_sigmoid_backward:
      return in[0] * at::sigmoid(-in[1]);
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

std::optional<Tensor> reduction(const ir::Node& n, const Tensor& x) {
  auto dims = list(n, 0);
  const bool keep = n.attrs.number(1) != 0;
  if (dims.empty()) {
    if (n.op == Op::any || n.op == Op::all) return x.to(at::kBool);
    if (n.op == Op::argmax || n.op == Op::argmin) return at::zeros(x.sizes(), x.options().dtype(at::kLong));
    return x;
  }
  switch (n.op) {
    case Op::sum:
      return at::sum(x, dims, keep, x.scalar_type());
    case Op::amax:
      return at::amax(x, dims, keep);
    case Op::amin:
      return at::amin(x, dims, keep);
    case Op::any:
      return at::any(x, dims, keep);
    case Op::all:
      return at::all(x, dims, keep);
    case Op::prod: {
      Tensor y = x;
      for (size_t i = dims.size(); i-- > 0;) y = at::prod(y, dims[i], keep, x.scalar_type());
      return y;
    }
    case Op::argmax:
    case Op::argmin: {
      auto arg = [&](std::optional<int64_t> dim, bool k) {
        return n.op == Op::argmax ? at::argmax(x, dim, k) : at::argmin(x, dim, k);
      };
      if (dims.size() == 1) return arg(dims[0], keep);
      return arg({}, false).reshape(to_ref(n.types[0].shape));
    }
    default:
      return {};
  }
}

std::optional<Tensor> view(const ir::Node& n, const Tensor& x) {
  switch (n.op) {
    case Op::reshape:
      return x.reshape(list(n, 0));
    case Op::permute:
      return x.permute(list(n, 0));
    case Op::broadcast:
      return x.expand(list(n, 0));
    case Op::flip:
      return at::flip(x, list(n, 0));
    case Op::as_strided: {
      const Tensor base = x.contiguous();
      return at::as_strided(base, list(n, 0), list(n, 1), base.storage_offset() + n.attrs.number(2));
    }
    case Op::slice: {
      Tensor y = x;
      const auto starts = list(n, 0), sizes = list(n, 1), steps = list(n, 2);
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
      return at::as_strided_scatter(base, in[1], in[1].sizes(), list(n, 0), base.storage_offset() + n.attrs.number(1));
    }
    case Op::cat:
      return at::cat(in, n.attrs.number(0));
    case Op::gather:
      return at::gather(in[0], n.attrs.number(0), in[1].to(at::kLong));
    case Op::pad: {
      const auto low = list(n, 0), high = list(n, 1);
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
      one = special(node, in);
      if (!one) return by_name(node.op, in, in_first);
      break;
    case ir::Kind::Reduction:
      one = reduction(node, in[0]);
      break;
    case ir::Kind::View:
      one = view(node, in[0]);
      break;
    case ir::Kind::Index:
      one = index(node, in);
      if (!one) return call_eager_row(node, in);
      break;
    case ir::Kind::Contraction:
    case ir::Kind::Window:
      return call_eager_row(node, in);
    case ir::Kind::Composite:
      return torch_composite(node, in);
    default:
      break;
  }
  if (!one) return {};
  return Tensors{*std::move(one)};
}

}  // namespace lazuli::lazy
