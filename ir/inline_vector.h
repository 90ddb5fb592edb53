// A vector whose first N elements live in it: what is nearly always short must not touch the heap.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <memory>
#include <span>

namespace lazuli::ir {

template <class T, uint32_t N>
class InlineVector {
 public:
  using value_type = T;

  InlineVector() = default;
  InlineVector(std::initializer_list<T> v) { assign(v.begin(), v.size()); }
  explicit InlineVector(std::span<const T> v) { assign(v.data(), v.size()); }
  InlineVector(size_t n, const T& value) { resize(n, value); }
  InlineVector(const InlineVector& o) { assign(o.data(), o.size_); }
  InlineVector(InlineVector&& o) noexcept { steal(o); }
  InlineVector& operator=(const InlineVector& o) {
    if (this != &o) assign(o.data(), o.size_);
    return *this;
  }
  InlineVector& operator=(InlineVector&& o) noexcept {
    if (this != &o) {
      release();
      steal(o);
    }
    return *this;
  }
  ~InlineVector() { release(); }

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return capacity_ > N ? heap_ : here(); }
  const T* data() const { return capacity_ > N ? heap_ : here(); }
  T& operator[](size_t i) { return data()[i]; }
  const T& operator[](size_t i) const { return data()[i]; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  auto rbegin() const { return std::reverse_iterator(end()); }
  auto rend() const { return std::reverse_iterator(begin()); }
  T& back() { return data()[size_ - 1]; }
  const T& back() const { return data()[size_ - 1]; }
  operator std::span<const T>() const { return {data(), size_}; }

  // `v` is not of this vector.
  void assign(const T* v, size_t n) {
    clear();
    reserve(n);
    std::uninitialized_copy_n(v, n, data());
    size_ = static_cast<uint32_t>(n);
  }
  void reserve(size_t n) {
    if (n > capacity_) move_to(std::max<size_t>(n, capacity_ * 2));
  }
  void resize(size_t n, const T& value = {}) {
    reserve(n);
    if (n > size_)
      std::uninitialized_fill(end(), data() + n, value);
    else
      std::destroy(data() + n, end());
    size_ = static_cast<uint32_t>(n);
  }
  void push_back(T v) {
    reserve(size_ + 1);
    std::construct_at(end(), std::move(v));
    ++size_;
  }
  void append(std::span<const T> v) {
    for (const T& x : v) push_back(x);
  }
  void insert(size_t at, T v) {
    push_back(std::move(v));
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(size_t at) {
    std::move(begin() + at + 1, end(), begin() + at);
    std::destroy_at(data() + --size_);
  }
  void clear() {
    std::destroy(begin(), end());
    size_ = 0;
  }

 private:
  T* here() { return reinterpret_cast<T*>(bytes_); }
  const T* here() const { return reinterpret_cast<const T*>(bytes_); }
  // This one is empty and has no memory of its own.
  void steal(InlineVector& o) {
    size_ = o.size_;
    capacity_ = o.capacity_;
    if (capacity_ > N) {
      heap_ = o.heap_;
      o.capacity_ = N;
    } else {
      std::uninitialized_move(o.begin(), o.end(), here());
      std::destroy(o.begin(), o.end());
    }
    o.size_ = 0;
  }
  void move_to(size_t capacity) {
    T* to = std::allocator<T>().allocate(capacity);
    std::uninitialized_move(begin(), end(), to);
    const uint32_t size = size_;
    release();
    size_ = size;
    capacity_ = static_cast<uint32_t>(capacity);
    heap_ = to;
  }
  void release() {
    clear();
    if (capacity_ > N) std::allocator<T>().deallocate(heap_, capacity_);
    capacity_ = N;
  }

  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  union {
    T* heap_;
    alignas(T) std::byte bytes_[N * sizeof(T)];
  };
};

// Of lists as short as these a call costs more than the loop.
template <class T, uint32_t N>
bool operator==(const InlineVector<T, N>& a, const InlineVector<T, N>& b) {
  if (a.size() != b.size()) return false;
  for (uint32_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i])) return false;
  return true;
}

}  // namespace lazuli::ir
