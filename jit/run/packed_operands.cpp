#include "jit/run/packed_operands.h"
#include <algorithm>

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
  for (const Packed& p : it->second.packed) bytes_ -= p.packed.bytes;
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

void PackedOperands::written(const Buffer& whole) {
  std::lock_guard lock(mutex_);
  if (const auto it = wholes_.find(whole.owner.get()); it != wholes_.end()) erase(it);
}

void PackedOperands::clear() {
  std::lock_guard lock(mutex_);
  wholes_.clear();
  bytes_ = 0;
}

size_t PackedOperands::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

}  // namespace lazuli::jit
