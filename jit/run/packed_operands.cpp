#include "jit/run/packed_operands.h"
#include <algorithm>

namespace lazuli::jit {

PackedOperands::Packed* PackedOperands::look_up(const Buffer& whole, const void* data, const std::string& order) {
  const auto it = wholes_.find(whole.owner.get());
  if (it == wholes_.end() || it->second.owner.expired()) return nullptr;
  for (Packed& p : it->second.packed)
    if (p.data == data && p.order == order) return &p;
  return nullptr;
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
  const Packed* p = look_up(whole, data, order);
  return p && std::ranges::equal(p->factor, factor) ? p->packed : Buffer{};
}

bool PackedOperands::wants(const Buffer& whole, const void* data, const std::string& order, size_t bytes,
                           Factor factor) {
  if (!whole.owner) return false;
  std::lock_guard lock(mutex_);
  if (Packed* p = look_up(whole, data, order)) {
    if (std::ranges::equal(p->factor, factor)) return bytes_ + bytes <= limit_;
    bytes_ -= p->packed.bytes;
    p->packed = {};
    p->factor.assign(factor.begin(), factor.end());
    return false;
  }
  sweep();
  Whole& w = wholes_[whole.owner.get()];
  w.owner = whole.owner;
  w.packed.push_back({data, order, {}, {factor.begin(), factor.end()}});
  return false;
}

void PackedOperands::keep(const Buffer& whole, const void* data, const std::string& order, Buffer packed) {
  std::lock_guard lock(mutex_);
  Packed* p = look_up(whole, data, order);
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
