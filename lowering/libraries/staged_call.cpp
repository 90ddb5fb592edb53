#include "lowering/libraries/staged_call.h"
#include <cstring>
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

// A copy between equal layouts is none.
void drop_if_idle(std::optional<Staging::Copy>& copy) {
  if (copy && copy->from.dtype == copy->to.dtype &&
      with_canonical_strides(copy->from).strides == with_canonical_strides(copy->to).strides)
    copy.reset();
}

class StagedCall final : public LibraryCall {
 public:
  StagedCall(std::unique_ptr<LibraryCall> call, Staging staging)
      : call_(std::move(call)), staging_(std::move(staging)) {
    bytes_ = round_up_64(call_->scratch_bytes());
    for (const auto& copy : staging_.operands) {
      offsets_.push_back(bytes_);
      if (copy) bytes_ += round_up_64(extent_bytes(copy->to));
    }
    result_at_ = bytes_;
    if (staging_.result) bytes_ += round_up_64(extent_bytes(staging_.result->from));
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    char* memory = static_cast<char*>(scratch);
    const size_t n = staging_.operands.size();
    const void* inner[kMostOperands];
    for (size_t i = 0; i < n; ++i) {
      inner[i] = operands[i];
      if (const auto& copy = staging_.operands[i]) {
        strided_copy(copy->from, operands[i], copy->to, memory + offsets_[i]);
        inner[i] = memory + offsets_[i];
      }
    }
    void* result = staging_.result ? memory + result_at_ : results[0];
    call_->run(inner, &result, scratch);
    run_post_ops(staging_.post_ops, staging_.result_layout, result, inner + staging_.post_op_operands_at);
    if (staging_.result) strided_copy(staging_.result->from, result, staging_.result->to, results[0]);
  }

  size_t scratch_bytes() const override { return bytes_; }
  std::string describe() const override {
    std::string text = call_->describe();
    for (size_t i = 0; i < staging_.operands.size(); ++i)
      if (staging_.operands[i]) text = "copy " + std::to_string(i) + " + " + text;
    if (!staging_.post_ops.empty()) text += " + post-ops";
    if (staging_.result) text += " + copy out";
    return text;
  }
  bool depends_on_threads() const override { return call_->depends_on_threads(); }
  static constexpr size_t kMostOperands = 32;

 private:
  std::unique_ptr<LibraryCall> call_;
  Staging staging_;
  std::vector<size_t> offsets_;
  size_t bytes_ = 0, result_at_ = 0;
};

class ZeroCall final : public LibraryCall {
 public:
  ZeroCall(const Layout& out, std::span<const PostOp> ops, size_t first)
      : out_(out), ops_(broadcast_post_ops(ops, out.shape)), first_(first) {
    zero_ = {out.dtype, out.shape, ir::Dims(out.shape.size(), 0)};
  }
  void run(const void* const* operands, void* const* results, void*) override {
    const double zero = 0;  // all-zero bits are zero in every element type
    strided_copy(zero_, &zero, out_, results[0]);
    run_post_ops(ops_, out_, results[0], operands + first_);
  }
  std::string describe() const override { return "zero"; }

 private:
  Layout out_, zero_;
  std::vector<PostOp> ops_;
  size_t first_;
};

}  // namespace

bool Staging::empty() const {
  for (const auto& copy : operands)
    if (copy) return false;
  return !result && post_ops.empty();
}

std::unique_ptr<LibraryCall> make_staged_call(std::unique_ptr<LibraryCall> call, Staging staging) {
  for (auto& copy : staging.operands) drop_if_idle(copy);
  drop_if_idle(staging.result);
  if (!call || staging.empty()) return call;
  LAZULI_CHECK(staging.operands.size() <= StagedCall::kMostOperands, "a library call with too many operands");
  return std::make_unique<StagedCall>(std::move(call), std::move(staging));
}

std::unique_ptr<LibraryCall> make_zero_call(const Layout& out, std::span<const PostOp> post_ops, size_t first) {
  return std::make_unique<ZeroCall>(out, post_ops, first);
}

}  // namespace lazuli::lowering
