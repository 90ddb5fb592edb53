// What one op recorded, as its place in the autograd graph holds it: some entries of the trace, which backward
// differentiates in place. Keeping them costs no copy and no reference; only a trace that ends before backward has run
// turns its segments into fragments (lazy/record/fragment.h), for those that are left.
#pragma once
#include <atomic>
#include <memory>
#include <utility>
#include <c10/util/SmallVector.h>
#include "ir/builder.h"
#include "lazy/support/block_pool.h"
#include "lazy/support/reference_count.h"

namespace lazuli::lazy {

class Recording;
class Trace;
struct Fragment;
struct Replaced;
// A permutation of dimensions from outermost to innermost in memory; empty = row-major already.
using Order = ir::Dims;

struct Segment final : Pooled<Segment, 128> {
  struct Value {
    uint32_t id = 0;        // in the trace
    uint16_t order = 0;     // one of `orders`, from 1 on: the dimensions as they lie in memory; 0: as they are
    uint16_t tensor = 0;    // of a read value: which of the op's tensors showed it
    bool active = false;    // gradients flow through it
    bool constant = false;  // of an output: to torch it has no history, whatever it was computed from
  };
  Segment();
  ~Segment();

  std::atomic<uint32_t> references{1};
  uint64_t epoch = 0;           // of the trace
  uint32_t begin = 0, end = 0;  // its entries
  c10::SmallVector<Value, 3> reads;
  c10::SmallVector<Value, 1> outputs;
  std::unique_ptr<std::vector<Order>> orders;  // null: none
  std::unique_ptr<Fragment> fragment;          // once the trace has ended

  const Order& order(const Value& v) const { return (*orders)[v.order - 1u]; }
  uint16_t add_order(const Order& order) {
    if (order.empty()) return 0;
    if (!orders) orders = std::make_unique<std::vector<Order>>();
    orders->push_back(order);
    return static_cast<uint16_t>(orders->size());
  }
  // Makes the fragment; `trace` is the one that it belongs to. Does nothing a second time.
  void settle(const Trace& trace);
};

class SegmentRef {
 public:
  SegmentRef() = default;
  static SegmentRef make() { return SegmentRef(new Segment); }
  SegmentRef(const SegmentRef& o) : p_(o.p_) {
    if (p_) p_->references.fetch_add(1, std::memory_order_relaxed);
  }
  SegmentRef(SegmentRef&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  SegmentRef& operator=(SegmentRef o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~SegmentRef() {
    if (p_ && give_up_reference(p_->references)) delete p_;
  }
  // A second reference, when this is the only one.
  SegmentRef share_first() const {
    p_->references.store(2, std::memory_order_relaxed);
    return SegmentRef(p_);
  }
  Segment* operator->() const { return p_; }
  Segment& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  bool shared() const { return p_->references.load(std::memory_order_acquire) > 1; }

 private:
  explicit SegmentRef(Segment* p) : p_(p) {}
  Segment* p_ = nullptr;
};

// Cotangents of a segment's tensors, from those of its outputs: see differentiate() of fragments.
void differentiate(Recording& r, const Segment& s, std::span<const ir::Value> cotangents, uint64_t needs,
                   std::span<ir::Value> out, std::span<const Replaced> replaced, bool gives_zeros);

}  // namespace lazuli::lazy
