#include "lowering/libraries/onednn_program.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include "lowering/instruction_sets/instruction_sets.h"
#include "lowering/libraries/invalid_flag.h"

namespace lazuli::lowering::onednn {

// What it may use is decided before the first question to it.
const dnnl::engine& engine() {
  static const dnnl::engine e = [] {
    if (is_held_to_avx2()) dnnl::set_max_cpu_isa(dnnl::cpu_isa::avx2);
    return dnnl::engine(dnnl::engine::kind::cpu, 0);
  }();
  return e;
}

memory::data_type data_type(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F32:
      return memory::data_type::f32;
    case ir::DType::BF16:
      return memory::data_type::bf16;
    case ir::DType::F16:
      return memory::data_type::f16;
    case ir::DType::I8:
      return memory::data_type::s8;
    case ir::DType::U8:
      return memory::data_type::u8;
    case ir::DType::I32:
      return memory::data_type::s32;
    default:
      return memory::data_type::undef;
  }
}

// A dimension steps over all behind it, or a single image that is channels-last would not be known as such.
Descriptor descriptor(Layout layout) {
  for (size_t d = layout.shape.size(); d-- > 0;)
    if (layout.strides[d] == 0) {
      layout.shape[d] = 1;
      layout.strides[d] = 1;
      for (size_t e = d + 1; e < layout.shape.size(); ++e)
        layout.strides[d] = std::max<int64_t>(layout.strides[d], layout.strides[e] * layout.shape[e]);
    }
  return Descriptor(memory::dims(layout.shape.begin(), layout.shape.end()), data_type(layout.dtype),
                    memory::dims(layout.strides.begin(), layout.strides.end()));
}

Value Program::scratch(const Descriptor& d) {
  Value v{Value::Scratch, bytes_, d};
  bytes_ += round_up_64(d.get_size());
  return v;
}

void Program::add(const dnnl::primitive& primitive, const Descriptor& scratchpad,
                  std::vector<std::pair<int, Value>> args, std::string_view implementation) {
  if (scratchpad.get_size()) args.emplace_back(DNNL_ARG_SCRATCHPAD, scratch(scratchpad));
  Step step{primitive, {}};
  for (const auto& [arg, value] : args) {
    bindings_.push_back({memory(value.descriptor, engine(), nullptr), value.place, value.at});
    step.args.push_back({arg, bindings_.back().memory.get()});
  }
  steps_.push_back(std::move(step));
  text_ += (text_.empty() ? "" : " + ") + std::string(implementation);
}

void Program::reorder(const Value& from, const Value& to) {
  dnnl::primitive_attr attr;
  attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  dnnl::reorder::primitive_desc pd(engine(), from.descriptor, engine(), to.descriptor, attr);
  add(dnnl::reorder(pd), pd.scratchpad_desc(), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}, "reorder");
}

// What was made for one thread runs on one, so that its bits are the same whoever runs it.
void Program::run(const void* const* operands, void* const* results, void* scratch) {
  if (threads_ > 1) {
    openmp_has_worked();
    return run_here(operands, results, scratch);
  }
  const OneThread one;
  run_here(operands, results, scratch);
}

void Program::run_here(const void* const* operands, void* const* results, void* scratch) {
  if (!tail_) return execute(operands, results, scratch);
  if (!tail_->rest) {
    execute(operands, results, scratch);
    return finish(operands, results);
  }
  if (finds_old_flags_) clear_invalid();
  execute(operands, results, scratch);
  if (!is_invalid_raised()) return;
  if (!finds_old_flags_) {
    finds_old_flags_ = true;
    clear_invalid();
    execute(operands, results, scratch);
    if (!is_invalid_raised()) return;
  }
  if (!rest_) rest_ = tail_->rest();
  const size_t bytes = round_up_64(rest_->scratch_bytes());
  const std::unique_ptr<void, decltype(&std::free)> own(bytes ? std::aligned_alloc(64, bytes) : nullptr, &std::free);
  rest_->execute(operands, results, own.get());
  finish(operands, results);
}
void Program::finish(const void* const* operands, void* const* results) const {
  run_post_ops(tail_->ops, tail_->result, results[0], operands + tail_->operands_at);
}
void Program::execute(const void* const* operands, void* const* results, void* scratch) {
  for (Binding& b : bindings_) {
    void* data = b.place == Value::Operand  ? const_cast<void*>(operands[b.at])
                 : b.place == Value::Result ? results[0]
                                            : static_cast<char*>(scratch) + b.at;
    check(dnnl_memory_set_data_handle(b.memory.get(), data));
  }
  for (Step& s : steps_)
    check(dnnl_primitive_execute(s.primitive.get(), stream_.get(), static_cast<int>(s.args.size()), s.args.data()));
}

std::optional<size_t> ops_that_keep_nan(std::span<const PostOp> ops) {
  const auto loses = [](const PostOp& op) {
    const bool is_relu = op.kind == PostOp::LeakyRelu && static_cast<float>(op.alpha) == 0;
    return is_relu || op.kind == PostOp::Relu || op.kind == PostOp::Clamp;
  };
  const auto first = std::ranges::find_if(ops, loses);
  if (first == ops.end()) return {};
  return static_cast<size_t>(first - ops.begin());
}

Program::Tail tail_from(std::span<const PostOp> ops, size_t kept, const Layout& result) {
  const size_t operands_at = 2 + static_cast<size_t>(std::ranges::count_if(ops.first(kept), has_operand));
  return {broadcast_post_ops(ops.subspan(kept), result.shape), result, operands_at, {}};
}

size_t ops_inside(std::span<const PostOp> ops, const Layout& result) {
  constexpr int64_t kSmall = 64 << 10;
  return ir::product(result.shape) <= kSmall ? ops_that_keep_nan(ops).value_or(ops.size()) : ops.size();
}

bool fast(const dnnl::primitive_desc_base& pd) { return pd.get(true) && !std::strstr(pd.impl_info_str(), "ref"); }

Attributes attributes(std::span<const PostOp> ops, const ir::Dims& shape, size_t first) {
  using dnnl::algorithm;
  Attributes out;
  dnnl::post_ops list;
  for (const PostOp& op : ops) {
    if (has_operand(op)) {
      Value v{Value::Operand, first++, descriptor(broadcast_to(op.operand, shape))};
      out.args.emplace_back(DNNL_ARG_ATTR_MULTIPLE_POST_OP(list.len()) | DNNL_ARG_SRC_1, v);
      list.append_binary(op.kind == PostOp::Add ? algorithm::binary_add : algorithm::binary_mul, v.descriptor);
      continue;
    }
    switch (op.kind) {
      case PostOp::Relu:
        list.append_eltwise(algorithm::eltwise_relu, 0, 0);
        break;
      case PostOp::LeakyRelu:
        list.append_eltwise(algorithm::eltwise_relu, static_cast<float>(op.alpha), 0);
        break;
      case PostOp::Clamp:
        list.append_eltwise(algorithm::eltwise_clip, static_cast<float>(op.alpha), static_cast<float>(op.beta));
        break;
      case PostOp::GeluErf:
        list.append_eltwise(algorithm::eltwise_gelu_erf, 0, 0);
        break;
      case PostOp::GeluTanh:
        list.append_eltwise(algorithm::eltwise_gelu_tanh, 0, 0);
        break;
      case PostOp::Sigmoid:
        list.append_eltwise(algorithm::eltwise_logistic, 0, 0);
        break;
      case PostOp::Tanh:
        list.append_eltwise(algorithm::eltwise_tanh, 0, 0);
        break;
      case PostOp::Silu:
        list.append_eltwise(algorithm::eltwise_swish, 1, 0);
        break;
      case PostOp::HardSwish:
        list.append_eltwise(algorithm::eltwise_hardswish, 1.f / 6, 0.5f);
        break;
      case PostOp::Scale:
        list.append_eltwise(algorithm::eltwise_linear, static_cast<float>(op.alpha), 0);
        break;
      default:
        throw InternalError("a post-op without a oneDNN counterpart");
    }
  }
  out.attr.set_post_ops(list);
  out.attr.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return out;
}

bool describable(const Layout& layout, size_t trailing) {
  for (size_t d = 0; d < layout.shape.size(); ++d)
    if (layout.strides[d] < 0 || (layout.strides[d] == 0 && layout.shape[d] > 1 && d + trailing >= layout.shape.size()))
      return false;
  return true;
}

bool supports(ir::DType dtype) {
  static const bool bf16 = (engine(), dnnl::get_effective_cpu_isa() >= dnnl::cpu_isa::avx512_core);
  return dtype == ir::DType::F32 || (dtype == ir::DType::BF16 && bf16);
}

bool multiplies_bytes() {
  static const bool has = [] {
    const dnnl::cpu_isa isa = (engine(), dnnl::get_effective_cpu_isa());
    return isa == dnnl::cpu_isa::avx2_vnni || isa == dnnl::cpu_isa::avx2_vnni_2 ||
           isa >= dnnl::cpu_isa::avx512_core_vnni;
  }();
  return has;
}

namespace {

// Numbers that say all of a layout whose blocks repeat.
void append_text(std::string& text, const Descriptor& d) {
  const auto append = [&](const memory::dims& numbers) {
    for (int64_t n : numbers) text += std::to_string(n) + ",";
    text += ";";
  };
  text += std::to_string(static_cast<int>(d.get_data_type())) + ":";
  append(d.get_padded_dims());
  append(d.get_strides());
  append(d.get_inner_blks());
  append(d.get_inner_idxs());
}

// A few columns are padded to a block: of a large operand that is more to write, and to keep, than packing saves.
bool is_mostly_padding(const Descriptor& given, const Descriptor& wanted) {
  constexpr size_t kSmall = 64 << 10;  // bytes
  return wanted.get_size() > std::max(kSmall, 2 * given.get_size());
}

// Whether the numbers of a strided operand are all that lies there. A reorder moves floating-point ones bit by bit.
bool has_no_gaps(const Descriptor& d) {
  const memory::dims sizes = d.get_dims(), strides = d.get_strides();
  std::vector<size_t> by_stride(sizes.size());
  std::iota(by_stride.begin(), by_stride.end(), size_t{0});
  std::ranges::sort(by_stride, {}, [&](size_t dim) { return strides[dim]; });
  int64_t next = 1;
  for (size_t dim : by_stride) {
    if (sizes[dim] == 1) continue;
    if (strides[dim] != next) return false;
    next *= sizes[dim];
  }
  const auto type = d.get_data_type();
  return d.get_inner_nblks() == 0 && (type == memory::data_type::f32 || type == memory::data_type::bf16);
}

}  // namespace

PackedCall packing(const Descriptor& given, const Descriptor& wanted) {
  if (given == wanted || wanted.get_format_kind() != memory::format_kind::blocked || wanted.get_inner_nblks() == 0 ||
      is_mostly_padding(given, wanted))
    return {};
  auto pack = std::make_unique<Program>();
  pack->reorder({Value::Operand, 0, given}, {Value::Result, 0, wanted});
  PackedCall p{std::move(pack), nullptr, wanted.get_size(), {}};
  if (has_no_gaps(given) && given.get_data_type() == wanted.get_data_type()) {
    p.unpacked_bytes = given.get_size();
    p.unpacking = [given, wanted] {
      auto unpack = std::make_unique<Program>();
      unpack->reorder({Value::Operand, 0, wanted}, {Value::Result, 0, given});
      return unpack;
    };
  }
  append_text(p.order, given);
  append_text(p.order, wanted);
  // Behind bytes that meet signed ones lie sums for oneDNN, which nothing else of the descriptor tells.
  p.order += std::to_string(p.bytes);
  return p;
}

}  // namespace lazuli::lowering::onednn
