#include "lazy/record/tape.h"

#include <bit>
#include "lazy/record/saved_values.h"

namespace lazuli::lazy {
namespace {

// A result's value and its dimensions' order in memory; false when it is not the whole of its memory.
bool value_of(const at::Tensor& t, Cell*& cell, Order& order) {
  auto* impl = t.unsafeGetTensorImpl();
  cell = storage_of(t).cell();
  const ir::Type& type = cell->type;
  if (impl->storage_offset() != 0 || type.dtype != to_ir(t.scalar_type())) return false;
  if (impl->is_contiguous() && ir::equal(type.shape, impl->sizes())) return true;
  if (!memory_order(t.sizes(), t.strides(), order) || type.shape.size() != static_cast<size_t>(t.dim())) return false;
  for (size_t i = 0; i < type.shape.size(); ++i)
    if (type.shape[i] != t.size(order.empty() ? static_cast<int64_t>(i) : int64_t{order[i]})) return false;
  return true;
}

bool is_floating(const at::Tensor* t) { return t && t->defined() && c10::isFloatingType(t->scalar_type()); }

// Two tensors with one value, of which gradients may want only one: the value gets a second name.
ir::Value rename(Recording& r, ir::Value v) { return r.emit(ir::Op::reshape, {v}, ir::Attrs().add(r.shape(v))); }

}  // namespace

ir::Value OpTape::read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) {
  uint64_t places = 0;  // a tensor may be an op's twice
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] && inputs_[i]->is_same(t)) places |= uint64_t{1} << i;
  if (!places) return v;  // an intermediate tensor of the op's
  const auto i = static_cast<uint16_t>(std::countr_zero(places));
  Segment& s = *segment_;
  for (const auto& known : s.reads)
    if (known.id == v.node) [[unlikely]] {
      if (known.tensor == i && (known.order ? s.order(known) == order : order.empty())) return v;
      v = rename(r, v);
      break;
    }
  read_ |= places;
  const bool active = requires_grad_ >> i & 1 && ir::is_floating(r.dtype(v));
  s.reads.push_back({v.node, s.add_order(order), i, active});
  return v;
}

void OpTape::made(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) {
  const c10::TensorImpl* impl = t.unsafeGetTensorImpl();
  const bool output = is_output(made_.size(), impl->dtype().toScalarType());
  segment_->outputs.push_back({.id = v.node + v.result, .order = segment_->add_order(order), .constant = !output});
  made_.push_back({impl, &r.cell(v)});
}

void OpTape::recorded(Trace& trace, size_t begin, size_t end) {
  if (begin == end) return;
  Segment& s = *segment_;
  s.end = static_cast<uint32_t>(end);
  saved_ = nullptr;
  if (s.epoch) return;
  s.epoch = trace.epoch();
  s.begin = static_cast<uint32_t>(begin);
  // Most ops record in one scope and return what they make there: then all is known now, and nothing is to be looked
  // up.
  if (made_.empty()) return;
  try {
    settle(trace);
  } catch (...) {  // asked again where it can be said
  }
}

void OpTape::settle(Trace& trace) {
  Segment& s = *segment_;
  const Saved& saved = saved_by(trace, s, own_);
  for (size_t i = 0; i < s.outputs.size(); ++i) s.outputs[i].active = saved.flowing >> i & 1;
  if (saved.differentiable && !listed_) {
    trace.segments.push_back(segment_.share_first());
    listed_ = true;
  }
  saved_ = &saved;
}

bool OpTape::find_outputs(Tensors results, uint64_t epoch) {
  Segment& s = *segment_;
  s.outputs.clear();
  for (size_t i = 0; i < results.size(); ++i) {
    const at::Tensor* t = results[i];
    Segment::Value v{kAbsent};
    if (t->defined()) {
      Cell* cell;
      Order order;
      v.constant = !is_output(i, t->scalar_type());
      if (value_of(*t, cell, order) && cell->epoch == epoch) {
        v.id = cell->id;
        v.order = s.add_order(order);
      } else if (!v.constant) {
        return false;
      }
    }
    s.outputs.push_back(v);
  }
  return true;
}

inline bool OpTape::foresaw(Tensors results) const {
  if (!saved_ || results.size() != made_.size()) return false;
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i]->unsafeGetTensorImpl() != made_[i].tensor || storage_of(*results[i]).cell() != made_[i].cell)
      return false;
  return true;
}

const Saved* OpTape::finish(Tensors results) {
  if (requires_grad_ & ~read_) return nullptr;
  if (!foresaw(results)) {
    std::lock_guard lock(recorder().mutex);
    Trace& trace = recorder().trace;
    // A trace that ended in the op's midst took values with it.
    if (segment_->epoch != trace.epoch() || !find_outputs(results, trace.epoch())) return nullptr;
    settle(trace);
  }
  return saved_->differentiable ? saved_ : nullptr;
}

DerivativeTape::DerivativeTape(Tensors inputs, uint64_t requires_grad, const Fragment& earlier, uint16_t first_tensor,
                               uint16_t first_result)
    : inputs_(inputs),
      requires_grad_(requires_grad),
      earlier_(earlier),
      first_tensor_(first_tensor),
      first_result_(first_result),
      segment_(SegmentRef::make()),
      builder_(*(segment_->fragment = std::make_unique<Fragment>())) {}
DerivativeTape::~DerivativeTape() = default;

ir::Value DerivativeTape::read(Recording& r, const at::Tensor& t, ir::Value v, const Order& order) {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i] && inputs_[i]->is_same(t)) return note(r, v, static_cast<uint16_t>(i), order, nullptr);
  return v;
}

ir::Value DerivativeTape::note(Recording& r, ir::Value v, uint16_t input, const Order& order,
                               const Fragment::Slot* origin) {
  Cell* cell = &r.cell(v);
  if (uint16_t known = builder_.slot_of(cell); known != Fragment::kNone) {
    const Fragment::Slot& s = segment_->fragment->slots[known];
    if (s.from == Fragment::Slot::From::Input && s.index == input && s.order == order) return v;
    v = rename(r, v);
    cell = &r.cell(v);
  }
  bool active = requires_grad_ >> input & 1 && ir::is_floating(cell->type.dtype);
  uint16_t slot = builder_.read(cell, input, active, order);
  if (origin) builder_.stands_for(slot, earlier_, *origin);
  segment_->reads.push_back({v.node, segment_->add_order(order), input, active});
  return v;
}

ir::Value DerivativeTape::read_earlier(Recording& r, uint16_t slot, ir::Value v) {
  const Fragment::Slot& s = earlier_.slots[slot];
  for (size_t i = 0; i < earlier_.outputs.size(); ++i)
    if (earlier_.outputs[i].slot == slot && !earlier_.outputs[i].constant)
      return note(r, v, static_cast<uint16_t>(first_result_ + i), earlier_.outputs[i].order, &s);
  if (s.from == Fragment::Slot::From::Input) {
    if (s.index != Fragment::kNone) return note(r, v, static_cast<uint16_t>(first_tensor_ + s.index), s.order, &s);
    return v;
  }
  if (!s.active) return v;
  builder_.import(earlier_, slot, &r.cell(v), [this](Fragment::Slot& s) {
    if (s.from != Fragment::Slot::From::Input) return;
    if (s.index != Fragment::kNone) s.index = static_cast<uint16_t>(s.index + first_tensor_);
    s.active = s.active && requires_grad_ >> s.index & 1;
  });
  return v;
}

void DerivativeTape::recorded(Trace& trace, size_t begin, size_t end) {
  if (begin == end) return;
  broken_ |= (epoch_ && epoch_ != trace.epoch()) || builder_.too_long();
  epoch_ = trace.epoch();
  if (!broken_) builder_.collect(trace, begin, end);
}

Saved DerivativeTape::finish(Tensors results) {
  std::lock_guard lock(recorder().mutex);
  const Trace& trace = recorder().trace;
  if (broken_ || (epoch_ && epoch_ != trace.epoch()) || builder_.too_long()) return {};
  for (const at::Tensor* t : results) {
    Cell* cell = nullptr;
    Order order;
    if (is_floating(t) && !value_of(*t, cell, order)) return {};
    if (!builder_.add_output(cell, order)) return {};
    segment_->outputs.push_back({kAbsent});
  }
  Saved saved = builder_.finish(trace);
  for (size_t i = 0; i < results.size(); ++i) segment_->outputs[i].active = saved.flowing >> i & 1;
  return saved;
}

}  // namespace lazuli::lazy
