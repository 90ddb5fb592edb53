// Runs a product of tests/lowering/matmul_cases.h on the GPU and says what is wrong with its result.
#pragma once
#include <memory>
#include "lowering/libraries/cuda/cublaslt.h"
#include "tests/gpu/matmul/device.h"
#include "tests/lowering/matmul_cases.h"

namespace lazuli::lowering::testing {

using lazuli::testing::Device;
using lazuli::testing::Memory;

// A host tensor's copy on the device, guards and all, `shift` elements beyond an aligned address.
class DeviceTensor {
 public:
  explicit DeviceTensor(Tensor& host, int64_t shift = 0)
      : host_(host),
        bytes_(extent_bytes(host.layout) + 2 * Tensor::kGuard),
        shift_(static_cast<size_t>(shift * ir::item_size(host.layout.dtype))),
        memory_(bytes_ + shift_) {
    upload();
  }
  void* data() const { return memory_.data() + shift_ + Tensor::kGuard; }
  void upload() { Device::get()->upload(memory_.data() + shift_, outside(), bytes_); }
  void download() { Device::get()->download(outside(), memory_.data() + shift_, bytes_); }

 private:
  char* outside() const { return static_cast<char*>(host_.data()) - Tensor::kGuard; }
  Tensor& host_;
  size_t bytes_, shift_;
  Memory memory_;
};

struct Shifts {
  int64_t a = 0, b = 0, out = 0, other = 0;
};

// A case with its operands on the device, which may be run in several ways.
class DeviceMatmul {
 public:
  explicit DeviceMatmul(const MatmulCase& c, const MatmulSettings& settings = {}, Shifts shift = {})
      : case_(c), host_(c), a_(host_.a, shift.a), b_(host_.b, shift.b), out_(host_.out, shift.out) {
    if (!host_.others.empty()) other_ = std::make_unique<DeviceTensor>(host_.others[0], shift.other);
    call_ = make_cublaslt_matmul(c.a, c.b, c.out, c.ops, settings);
    if (!call_) throw std::runtime_error("cuBLASLt was not given the product");
    call_->on_stream(Device::get()->stream());
    scratch_ = std::make_unique<Memory>(call_->scratch_bytes());
  }

  LibraryCall& call() { return *call_; }
  DeviceTensor& out() { return out_; }
  MatmulOperands& host() { return host_; }
  void enqueue() { enqueue(out_.data(), other_ ? other_->data() : nullptr); }
  void enqueue(void* result, const void* other) {
    const void* operands[] = {a_.data(), b_.data(), other};
    call_->run(operands, &result, scratch_->data());
  }

  // Empty, or how the result differs from the reference. `slack` widens the tolerance of the result's type. Of large
  // results a part is looked at.
  std::string wrong(double slack = 1) {
    Device::get()->synchronize();
    out_.download();
    const MatmulReference reference(case_, host_);
    const double k = static_cast<double>(case_.a.shape.back()), scale = std::sqrt(std::max(k, 1.0)) * slack;
    const double elements = static_cast<double>(ir::product(case_.out.shape));
    const auto every = static_cast<int64_t>(elements * k / 3e7) * 2 + 1;
    int64_t index = 0, seen = 0, bad = 0;
    double worst = 0;
    std::string where;
    host_.out.each([&](const ir::Dims& at) {
      if (index++ % every) return;
      ++seen;
      const double e = reference(at), a = host_.out.get(at);
      const double error = std::abs(a - e) / (tolerance(case_.out.dtype) * (std::abs(e) + scale));
      worst_ = std::max(worst_, std::abs(a - e));
      if (error <= 1) return;
      ++bad;
      if (!(error > worst) && !where.empty()) return;
      worst = error, where.clear();
      for (int64_t i : at) where += std::to_string(i) + " ";
      where = "at [ " + where + "] " + std::to_string(a) + " instead of " + std::to_string(e);
    });
    std::string text;
    if (bad) text = std::to_string(bad) + " of " + std::to_string(seen) + " elements; worst " + where;
    if (!host_.out.guards_hold()) text += " WROTE BEYOND THE RESULT";
    return text.empty() ? text : case_.name + ": " + call_->describe() + ": " + text;
  }
  double worst() const { return worst_; }  // absolute error that wrong() saw

 private:
  MatmulCase case_;
  MatmulOperands host_;
  DeviceTensor a_, b_, out_;
  std::unique_ptr<DeviceTensor> other_;
  std::unique_ptr<LibraryCall> call_;
  std::unique_ptr<Memory> scratch_;
  double worst_ = 0;
};

// Collects what went wrong in many cases, and prints the first few.
class Report {
 public:
  ~Report() {
    if (!failures_.empty()) ADD_FAILURE() << failures_.size() << " of " << cases_ << " cases are wrong:\n" << first_;
  }
  template <class F>  // F returns what is wrong, or nothing
  void add(const std::string& name, F&& run) {
    ++cases_;
    std::string wrong;
    try {
      wrong = run();
    } catch (const std::exception& e) {
      wrong = name + ": " + e.what();
    }
    if (wrong.empty()) return;
    failures_.push_back(wrong);
    if (failures_.size() <= 12) first_ += "  " + wrong + "\n";
  }
  void add(const MatmulCase& c, const MatmulSettings& settings = {}, Shifts shift = {}) {
    add(c.name + " of " + std::string(ir::name(c.a.dtype)), [&] {
      DeviceMatmul m(c, settings, shift);
      m.enqueue();
      return m.wrong();
    });
  }
  void add(const std::vector<MatmulCase>& cases) {
    for (const MatmulCase& c : cases) add(c);
  }

 private:
  std::vector<std::string> failures_;
  std::string first_;
  int cases_ = 0;
};

}  // namespace lazuli::lowering::testing
