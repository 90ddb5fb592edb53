// A short list of 64-bit integers: shapes, strides, attributes. Ranks up to six live inline, since
// recording an op must not touch the heap.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <span>

namespace lazuli::ir {

class Dims {
 public:
  static constexpr uint32_t kInline = 6;
  Dims() = default;
  Dims(std::initializer_list<int64_t> v) { assign(v.begin(), v.size()); }
  explicit Dims(std::span<const int64_t> v) { assign(v.data(), v.size()); }
  Dims(size_t n, int64_t value) { resize(n, value); }
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
  int64_t* data() { return capacity_ > kInline ? heap_ : inline_; }
  const int64_t* data() const { return capacity_ > kInline ? heap_ : inline_; }
  int64_t& operator[](size_t i) { return data()[i]; }
  int64_t operator[](size_t i) const { return data()[i]; }
  int64_t* begin() { return data(); }
  int64_t* end() { return data() + size_; }
  const int64_t* begin() const { return data(); }
  const int64_t* end() const { return data() + size_; }
  int64_t& back() { return data()[size_ - 1]; }
  int64_t back() const { return data()[size_ - 1]; }
  operator std::span<const int64_t>() const { return {data(), size_}; }

  void assign(const int64_t* v, size_t n) {
    reserve_discard(n);
    size_ = static_cast<uint32_t>(n);
    if (n) std::memcpy(data(), v, n * sizeof(int64_t));
  }
  void resize(size_t n, int64_t value = 0) {
    grow(n);
    if (n > size_) std::fill(data() + size_, data() + n, value);
    size_ = static_cast<uint32_t>(n);
  }
  void push_back(int64_t v) {
    grow(size_ + 1);
    data()[size_++] = v;
  }
  void append(std::span<const int64_t> v) {
    for (int64_t x : v) push_back(x);
  }
  void insert(size_t at, int64_t v) {
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
      std::memcpy(inline_, o.inline_, size_ * sizeof(int64_t));
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
    heap_ = new int64_t[n];
    capacity_ = static_cast<uint32_t>(n);
  }
  void grow(size_t n) {
    if (n <= capacity_) return;
    size_t c = std::max<size_t>(n, capacity_ * 2);
    auto* p = new int64_t[c];
    if (size_) std::memcpy(p, data(), size_ * sizeof(int64_t));
    release();
    heap_ = p;
    capacity_ = static_cast<uint32_t>(c);
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = kInline;
  union {
    int64_t inline_[kInline];
    int64_t* heap_;
  };
};

// Of lists as short as these a call costs more than the loop.
inline bool equal(std::span<const int64_t> a, std::span<const int64_t> b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (a[i] != b[i]) return false;
  return true;
}
inline bool operator==(const Dims& a, const Dims& b) { return equal(a, b); }
inline int64_t product(std::span<const int64_t> v) {
  int64_t n = 1;
  for (int64_t x : v) n *= x;
  return n;
}
Dims contiguous_strides(std::span<const int64_t> shape);

}  // namespace lazuli::ir
