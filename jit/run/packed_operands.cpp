#include "jit/run/packed_operands.h"
#include <algorithm>
#include <cstdlib>
#include <new>

namespace lazuli::jit {

PackedOperands::Packed* PackedOperands::look_up(const Operand& o) {
  const auto it = wholes_.find(o.whole.owner.get());
  if (it == wholes_.end() || it->second.owner.expired()) return nullptr;
  for (Packed& p : it->second.packed)
    if (p.data == o.data && p.order == o.order && std::ranges::equal(p.factor, o.factor)) return &p;
  return nullptr;
}

// Factors change, too: of one operand only so many are remembered.
void PackedOperands::forget_factors(Whole& whole, const Operand& o) {
  constexpr std::ptrdiff_t kMost = 4;
  const auto is_same = [&](const Packed& p) { return p.data == o.data && p.order == o.order; };
  if (std::ranges::count_if(whole.packed, is_same) < kMost) return;
  const auto oldest = std::ranges::find_if(whole.packed, is_same);
  bytes_ -= oldest->packed.bytes;
  whole.packed.erase(oldest);
}

void PackedOperands::erase(std::unordered_map<const void*, Whole>::iterator it) {
  const Whole& w = it->second;
  for (const Packed& p : w.packed) bytes_ -= p.packed.bytes;
  if (w.away) bytes_ += w.packed[0].packed.bytes, --away_;
  wholes_.erase(it);
}

// Whatever belongs to buffers that are gone.
void PackedOperands::sweep() {
  for (auto it = wholes_.begin(); it != wholes_.end();) {
    const auto at = it++;
    if (at->second.owner.expired()) erase(at);
  }
}

void PackedOperands::set_limit(size_t bytes) {
  std::lock_guard lock(mutex_);
  limit_ = bytes;
}

Buffer PackedOperands::find(const Operand& operand) {
  std::lock_guard lock(mutex_);
  const Packed* p = look_up(operand);
  return p ? p->packed : Buffer{};
}

bool PackedOperands::wants(const Operand& o, size_t bytes) {
  if (!o.whole.owner) return false;
  std::lock_guard lock(mutex_);
  if (look_up(o)) return bytes_ + bytes <= limit_;
  sweep();
  Whole& w = wholes_[o.whole.owner.get()];
  w.owner = o.whole.owner;
  forget_factors(w, o);
  w.packed.push_back({o.data, o.order, {}, {o.factor.begin(), o.factor.end()}});
  return false;
}

void PackedOperands::keep(const Operand& operand, Buffer packed) {
  std::lock_guard lock(mutex_);
  Packed* p = look_up(operand);
  if (!p) return;  // written meanwhile
  bytes_ += packed.bytes - p->packed.bytes;
  p->packed = std::move(packed);
}

// An operand that is away was packed in one order only (Executor::may_let_go).
void PackedOperands::replace(const Operand& o, const Unpacking& unpacking,
                             const std::function<std::shared_ptr<void>()>& let_go) {
  std::lock_guard lock(mutex_);
  const Packed* p = look_up(o);
  if (!p || !p->packed.data) return;
  Whole& w = wholes_[o.whole.owner.get()];
  if (w.away || w.stays || w.packed.size() != 1 || !(w.away = let_go())) return;
  w.unpacking = unpacking;
  w.data = o.whole.data;
  bytes_ -= p->packed.bytes;
  ++away_;
}

void PackedOperands::unpack(Whole& w) {
  const Buffer& packed = w.packed[0].packed;
  const auto unpack = w.unpacking();
  void* scratch = nullptr;
  if (const size_t bytes = unpack->scratch_bytes();
      bytes && !(scratch = std::aligned_alloc(64, (bytes + 63) / 64 * 64)))
    throw std::bad_alloc();
  const std::unique_ptr<void, decltype(&std::free)> free_at_end(scratch, &std::free);
  const void* from = packed.data;
  unpack->run(&from, &w.data, scratch);
  w.unpacking = {};
  w.away = nullptr;
  w.stays = true;
  --away_;
  bytes_ += packed.bytes;
  if (bytes_ <= limit_) return;
  bytes_ -= packed.bytes;
  w.packed.clear();
}

void PackedOperands::bring_back(const Buffer& whole) {
  if (away_ == 0) return;
  std::lock_guard lock(mutex_);
  const auto it = wholes_.find(whole.owner.get());
  if (it == wholes_.end() || it->second.owner.expired() || !it->second.away) return;
  unpack(it->second);
}

void PackedOperands::written(const Buffer& whole) {
  bring_back(whole);
  std::lock_guard lock(mutex_);
  if (const auto it = wholes_.find(whole.owner.get()); it != wholes_.end()) erase(it);
}

void PackedOperands::clear() {
  std::lock_guard lock(mutex_);
  for (auto it = wholes_.begin(); it != wholes_.end();) {
    const auto at = it++;
    if (!at->second.away || at->second.owner.expired()) erase(at);
  }
}

size_t PackedOperands::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace lazuli::jit
