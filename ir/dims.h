// A short list of sizes: shapes, strides, attributes. Ranks up to six live inline, since recording an op must not touch
// the heap.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>
#include "ir/size.h"

namespace lazuli::ir {

class Dims {
 public:
  static constexpr uint32_t kInline = 6;
  Dims() {}
  Dims(std::initializer_list<Size> v) { assign(v.begin(), v.size()); }
  explicit Dims(SizeSpan v) { assign(v.data(), v.size()); }
  Dims(size_t n, Size value) { resize(n, value); }
  Dims(const Dims& o) { assign(o.data(), o.size_); }
  Dims(Dims&& o) noexcept { steal(o); }
  Dims& operator=(const Dims& o) {
    if (this != &o) assign(o.data(), o.size_);
    return *this;
  }
  Dims& operator=(Dims&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~Dims() { release(); }

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  Size* data() { return capacity_ > kInline ? heap_ : inline_; }
  const Size* data() const { return capacity_ > kInline ? heap_ : inline_; }
  Size& operator[](size_t i) { return data()[i]; }
  Size operator[](size_t i) const { return data()[i]; }
  Size* begin() { return data(); }
  Size* end() { return data() + size_; }
  const Size* begin() const { return data(); }
  const Size* end() const { return data() + size_; }
  Size& back() { return data()[size_ - 1]; }
  Size back() const { return data()[size_ - 1]; }
  operator SizeSpan() const { return {data(), size_}; }
  // Where they are plain numbers; throws NotGeneric where one has an expression.
  operator std::span<const int64_t>() const { return numbers(*this); }

  void assign(SizeSpan v) { assign(v.data(), v.size()); }
  void assign(const int64_t* v, size_t n) { assign(SizeSpan(v, n)); }
  void assign(const Size* v, size_t n) {
    reserve_discard(n);
    size_ = static_cast<uint32_t>(n);
    if (n) std::memcpy(data(), v, n * sizeof(Size));
  }
  void resize(size_t n, Size value = 0) {
    grow(n);
    if (n > size_) std::fill(data() + size_, data() + n, value);
    size_ = static_cast<uint32_t>(n);
  }
  void push_back(Size v) {
    grow(size_ + 1);
    data()[size_++] = v;
  }
  void append(SizeSpan v) {
    for (Size x : v) push_back(x);
  }
  void insert(size_t at, Size v) {
    push_back(v);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(size_t at) {
    std::copy(begin() + at + 1, end(), begin() + at);
    --size_;
  }
  void clear() { size_ = 0; }

  friend bool operator==(const Dims& a, const Dims& b);

 private:
  void steal(Dims& o) {
    size_ = o.size_;
    capacity_ = o.capacity_;
    if (capacity_ > kInline)
      heap_ = o.heap_;
    else
      std::memcpy(inline_, o.inline_, size_ * sizeof(Size));
    o.size_ = 0;
    o.capacity_ = kInline;
  }
  void release() {
    if (capacity_ > kInline) delete[] heap_;
    capacity_ = kInline;
  }
  void reserve_discard(size_t n) {
    if (n <= capacity_) return;
    release();
    heap_ = new Size[n];
    capacity_ = static_cast<uint32_t>(n);
  }
  void grow(size_t n) {
    if (n <= capacity_) return;
    size_t c = std::max<size_t>(n, capacity_ * 2);
    auto* p = new Size[c];
    if (size_) std::memcpy(p, data(), size_ * sizeof(Size));
    release();
    heap_ = p;
    capacity_ = static_cast<uint32_t>(c);
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = kInline;
  union {
    Size inline_[kInline];
    Size* heap_;
  };
};

// Of lists as short as these a call costs more than the loop.
inline bool equal(SizeSpan a, SizeSpan b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}
inline bool operator==(const Dims& a, const Dims& b) { return equal(a, b); }
inline Size product(SizeSpan v) {
  Size n = 1;
  for (Size x : v) n *= x;
  return n;
}
Dims contiguous_strides(SizeSpan shape);
// The same where the second dimension of [N, C, spatial...] is the innermost in memory.
Dims channels_last_strides(SizeSpan shape);

}  // namespace lazuli::ir
