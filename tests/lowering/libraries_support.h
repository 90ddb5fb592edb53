// Strided operands for the tests of library calls: real memory of the layout's type, read and written as double, with
// guard bytes around it that must survive.
#pragma once
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <vector>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include "ir/error.h"
#include "lowering/libraries/elements.h"
#include "lowering/libraries/library.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering::testing {

// Row-major over dimensions in `order` (innermost last), each row padded by `padding` elements; dimensions in
// `broadcast` have stride 0.
inline Layout layout(ir::DType dtype, ir::Dims shape, std::vector<size_t> order = {}, int64_t padding = 0,
                     std::vector<size_t> broadcast = {}) {
  if (order.empty()) order.resize(shape.size()), std::iota(order.begin(), order.end(), 0);
  Layout l{dtype, shape, ir::Dims(shape.size(), 0)};
  int64_t stride = 1;
  for (size_t i = order.size(); i-- > 0;) {
    if (std::find(broadcast.begin(), broadcast.end(), order[i]) != broadcast.end()) continue;
    l.strides[order[i]] = stride;
    stride = stride * std::max<int64_t>(shape[order[i]], 1) + (i + 1 == order.size() ? padding : 0);
  }
  return l;
}

class Tensor {
 public:
  static constexpr size_t kGuard = 256;  // bytes on either side
  explicit Tensor(Layout l) : layout(std::move(l)), memory_(extent_bytes(layout) + 2 * kGuard + 64, kGuardByte) {
    const auto address = reinterpret_cast<uintptr_t>(memory_.data()) + kGuard;
    start_ = (address + 63) / 64 * 64 - reinterpret_cast<uintptr_t>(memory_.data());
  }
  static Tensor random(Layout l, uint32_t seed, double low = -1, double high = 1) {
    Tensor t(std::move(l));
    std::mt19937 generator(seed);
    std::uniform_real_distribution<double> distribution(low, high);
    t.each([&](const ir::Dims& at) { t.set(at, distribution(generator)); });
    return t;
  }

  void* data() { return memory_.data() + start_; }
  int64_t offset(const ir::Dims& at) const {
    return std::inner_product(at.begin(), at.end(), layout.strides.begin(), int64_t{0});
  }
  double get(const ir::Dims& at) const {
    return with_element_type(layout.dtype, [&](auto e) {
      std::memcpy(&e, memory_.data() + start_ + offset(at) * sizeof(e), sizeof(e));
      return static_cast<double>(e);
    });
  }
  void set(const ir::Dims& at, double value) {
    with_element_type(layout.dtype, [&](auto e) {
      e = static_cast<decltype(e)>(value);
      std::memcpy(memory_.data() + start_ + offset(at) * sizeof(e), &e, sizeof(e));
    });
  }
  // Calls f with every index, row-major.
  void each(const std::function<void(const ir::Dims&)>& f) const {
    const int64_t n = ir::product(layout.shape);
    ir::Dims at(layout.shape.size(), 0);
    for (int64_t i = 0; i < n; ++i) {
      f(at);
      for (size_t d = at.size(); d-- > 0;) {
        if (++at[d] < layout.shape[d]) break;
        at[d] = 0;
      }
    }
  }
  bool guards_hold() const {
    const size_t end = start_ + extent_bytes(layout);
    for (size_t i = 0; i < memory_.size(); ++i)
      if ((i < start_ || i >= end) && memory_[i] != kGuardByte) return false;
    return true;
  }

  Layout layout;

 private:
  static constexpr uint8_t kGuardByte = 0xa5;
  std::vector<uint8_t> memory_;
  size_t start_;
};

// Floats with a page behind them that nobody may read.
class Fenced {
 public:
  explicit Fenced(Tensor& t)
      : bytes_(static_cast<size_t>(ir::product(t.layout.shape)) * sizeof(float)),
        pages_((bytes_ + 4095) / 4096 * 4096) {
    start_ =
        static_cast<char*>(mmap(nullptr, pages_ + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(start_ + pages_, 4096, PROT_NONE);
    std::memcpy(start_ + pages_ - bytes_, t.data(), bytes_);
  }
  ~Fenced() { munmap(start_, pages_ + 4096); }
  Fenced(const Fenced&) = delete;
  const void* data() const { return start_ + pages_ - bytes_; }

 private:
  size_t bytes_, pages_;
  char* start_;
};

// x after `op`, in float64; `y` is the operand's element for Add and Mul.
inline double after_post_op(const PostOp& op, double x, double y = 0) {
  switch (op.kind) {
    case PostOp::Add:
      return x + y;
    case PostOp::Mul:
      return x * y;
    case PostOp::Relu:
      return x < 0 ? 0 : x;
    case PostOp::LeakyRelu:
      return x > 0 ? x : x * op.alpha;
    case PostOp::Clamp:
      return x < op.alpha ? op.alpha : x > op.beta ? op.beta : x;
    case PostOp::GeluErf:
      return 0.5 * x * std::erfc(-x * 0.70710678118654752440);
    case PostOp::GeluTanh: {
      const double inner = 0.79788456080286535588 * (x + 0.044715 * x * x * x);
      return x / (1 + std::exp(-2 * inner));
    }
    case PostOp::Sigmoid:
      return 1 / (1 + std::exp(-x));
    case PostOp::Tanh:
      return std::tanh(x);
    case PostOp::Silu:
      return x / (1 + std::exp(-x));
    case PostOp::HardSwish:
      return x * (x < -3 ? 0 : x > 3 ? 6 : x + 3) / 6;
    case PostOp::Scale:
      return x * op.alpha;
  }
  throw InternalError("no such post-op");
}

// x, the result's element at `at`, after `ops`, in float64.
inline double after_post_ops(double x, const std::vector<PostOp>& ops, const std::vector<Tensor>& operands,
                             const ir::Dims& at, const ir::Dims& shape) {
  size_t next = 0;
  for (const PostOp& op : ops) {
    double y = 0;
    if (has_operand(op)) {
      const Tensor& t = operands[next++];
      const Layout wide = broadcast_to(t.layout, shape);
      ir::Dims index(t.layout.shape.size(), 0);
      for (size_t d = 0; d < index.size(); ++d) {
        const size_t e = d + at.size() - index.size();
        index[d] = wide.strides[e] ? at[e] : ir::Size(0);
      }
      y = t.get(index);
    }
    x = after_post_op(op, x, y);
  }
  return x;
}

// Runs `call` with aligned scratch of exactly the size it asks for; guards must hold.
inline void run(LibraryCall& call, std::vector<Tensor*> operands, std::vector<Tensor*> results) {
  Tensor scratch(layout(ir::DType::U8, {static_cast<int64_t>(call.scratch_bytes())}));
  std::vector<const void*> in;
  std::vector<void*> out;
  for (Tensor* t : operands) in.push_back(t->data());
  for (Tensor* t : results) out.push_back(t->data());
  call.run(in.data(), out.data(), scratch.data());
  EXPECT_TRUE(scratch.guards_hold()) << call.describe() << " wrote beyond its scratch";
  for (Tensor* t : results) EXPECT_TRUE(t->guards_hold()) << call.describe() << " wrote beyond its result";
}

inline double tolerance(ir::DType dtype) {
  switch (dtype) {
    case ir::DType::F64:
      return 1e-13;
    case ir::DType::F32:
      return 2e-6;
    case ir::DType::F16:
      return 1e-3;
    case ir::DType::BF16:
      return 8e-3;
    default:
      return 0;
  }
}

// |actual - expected| <= tolerance * (|expected| + scale) everywhere.
inline void expect_close(const Tensor& actual, const std::function<double(const ir::Dims&)>& expected, double scale,
                         const std::string& what) {
  int failures = 0;
  actual.each([&](const ir::Dims& at) {
    const double e = expected(at), a = actual.get(at);
    if (std::isnan(e) ? std::isnan(a) : std::abs(a - e) <= tolerance(actual.layout.dtype) * (std::abs(e) + scale))
      return;
    if (a == e || ++failures > 3) return;
    std::string index;
    for (int64_t i : at) index += std::to_string(i) + " ";
    ADD_FAILURE() << what << ": at [ " << index << "] " << a << " instead of " << e;
  });
}

}  // namespace lazuli::lowering::testing
