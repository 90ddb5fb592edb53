#include "jit/run/packed_operands.h"
#include <algorithm>

namespace lazuli::jit {

PackedOperands::Packed* PackedOperands::look_up(const Buffer& whole, const void* data, const std::string& order,
                                                Factor factor) {
  const auto it = wholes_.find(whole.owner.get());
  if (it == wholes_.end() || it->second.owner.expired()) return nullptr;
  for (Packed& p : it->second.packed)
    if (p.data == data && p.order == order && std::ranges::equal(p.factor, factor)) return &p;
  return nullptr;
}

// Factors change, too: of one operand only so many are remembered.
void PackedOperands::forget_factors(Whole& whole, const void* data, const std::string& order) {
  constexpr std::ptrdiff_t kMost = 4;
  const auto is_same = [&](const Packed& p) { return p.data == data && p.order == order; };
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

Buffer PackedOperands::find(const Buffer& whole, const void* data, const std::string& order, Factor factor) {
  std::lock_guard lock(mutex_);
  const Packed* p = look_up(whole, data, order, factor);
  return p ? p->packed : Buffer{};
}

bool PackedOperands::wants(const Buffer& whole, const void* data, const std::string& order, size_t bytes,
                           Factor factor) {
  if (!whole.owner) return false;
  std::lock_guard lock(mutex_);
  if (look_up(whole, data, order, factor)) return bytes_ + bytes <= limit_;
  sweep();
  Whole& w = wholes_[whole.owner.get()];
  w.owner = whole.owner;
  forget_factors(w, data, order);
  w.packed.push_back({data, order, {}, {factor.begin(), factor.end()}});
  return false;
}

void PackedOperands::keep(const Buffer& whole, const void* data, const std::string& order, Buffer packed,
                          Factor factor) {
  std::lock_guard lock(mutex_);
  Packed* p = look_up(whole, data, order, factor);
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
