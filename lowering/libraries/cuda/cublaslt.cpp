// Chooses an algorithm for a product and enqueues it. What to compute is decided in blas_product.h and blas_epilogue.h.
#include "lowering/libraries/cuda/cublaslt.h"
#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <unordered_map>
#include "lowering/libraries/cuda/cublaslt_descriptions.h"
#include "lowering/libraries/cuda/cuda_stream.h"
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/product/matmul_operands.h"
#include "lowering/libraries/strided_copy.h"

namespace lazuli::lowering {
namespace {

using namespace cublaslt;

// --- What the process shares -----------------------------------------------------------------------

struct Choice {
  cublasLtMatmulAlgo_t algorithm{};
  size_t workspace_bytes = 0;  // what it uses
};

struct Shared {
  std::mutex mutex;
  std::unordered_map<void*, cublasLtHandle_t> handles;  // by context; primary contexts live as long as the process
  std::unordered_map<CublasLtKey, Choice, CublasLtKeyHash> choices;
};

Shared& shared() {
  static Shared* s = new Shared;  // never destroyed: the driver may be gone by then
  return *s;
}

cublasLtHandle_t handle_of(void* context) {
  Shared& s = shared();
  std::lock_guard lock(s.mutex);
  cublasLtHandle_t& handle = s.handles[context];
  if (!handle) check(api().cublasLtCreate(&handle), "creating its handle");
  return handle;
}

// LAZULI_CUBLASLT_TUNE=N: how many of the heuristic's candidates are measured at a product's first run.
int candidates_to_measure() {
  static const int n = [] {
    const char* text = std::getenv("LAZULI_CUBLASLT_TUNE");
    return text ? std::clamp(std::atoi(text), 1, 64) : 1;
  }();
  return n;
}

// The fastest candidate, measured on the real operands: `enqueue` overwrites the result, and the run that follows
// overwrites it again. Waits for the stream.
template <class Enqueue>
Choice fastest(const std::vector<Choice>& candidates, void* stream, Enqueue enqueue) {
  constexpr int kRepeats = 5;
  StreamTimer timer(stream);
  float best = 0;
  const Choice* found = nullptr;
  for (const Choice& candidate : candidates) {
    if (enqueue(candidate) != CUBLAS_STATUS_SUCCESS) continue;  // loads its kernel, too
    timer.start();
    for (int i = 0; i < kRepeats; ++i) enqueue(candidate);
    const float ms = timer.stop();
    if (!found || ms < best) best = ms, found = &candidate;
  }
  return found ? *found : candidates[0];
}

// --- The call ----------------------------------------------------------------------------------------

constexpr size_t kWorkspaceAlignment = 256, kScratchAlignment = 64;

class CublasLtMatmul final : public LibraryCall {
 public:
  explicit CublasLtMatmul(CublasLtProblem p) : problem_(std::move(p)) {
    const auto in = static_cast<uint64_t>(ir::item_size(problem_.type));
    const auto out = static_cast<uint64_t>(ir::item_size(problem_.out_type));
    for (const auto& o : problem_.product.outer) {
      steps_.a |= o.a * in, steps_.b |= o.b * in;
      steps_.c |= o.c * out, steps_.d |= o.d * out;
    }
    if (candidates_to_measure() == 1 && has_cuda_context()) plan();
  }

  void on_stream(void* stream) override { stream_ = stream; }

  size_t scratch_bytes() const override {
    const size_t bytes = most_workspace();
    return bytes ? bytes + kWorkspaceAlignment - kScratchAlignment : 0;
  }

  void run(const void* const* operands, void* const* results, void* scratch) override {
    if (!descriptions_) descriptions_ = std::make_unique<Descriptions>(problem_);
    const BlasProduct& p = problem_.product;
    Addresses at{static_cast<const char*>(operands[p.swapped]), static_cast<const char*>(operands[!p.swapped]), nullptr,
                 static_cast<char*>(results[0])};
    at.c = problem_.epilogue.addend ? static_cast<const char*>(operands[2]) : at.d;
    const void* bias = problem_.epilogue.bias ? operands[2] : nullptr;
    if (bias) descriptions_->product.set_bias(bias);
    const auto space = reinterpret_cast<uintptr_t>(scratch);
    workspace_ = reinterpret_cast<void*>((space + kWorkspaceAlignment - 1) & ~(kWorkspaceAlignment - 1));
    choose(at, bias);
    each_outer(at, 0);
  }

  std::string describe() const override {
    const BlasEpilogue& e = problem_.epilogue;
    std::string text = "cuBLASLt " + std::string(ir::name(problem_.type)) + " " + lowering::describe(problem_.product);
    if (problem_.type == DType::F32 && problem_.settings.tf32) text += " tf32";
    if (problem_.out_type != problem_.type) text += " to " + std::string(ir::name(problem_.out_type));
    if (e.alpha != 1) text += " scale";
    if (e.bias) text += " bias";
    if (e.addend) text += " add";
    if (e.activation == BlasEpilogue::Relu) text += " relu";
    if (e.activation == BlasEpilogue::GeluTanh) text += " gelu_tanh";
    return text;
  }

 private:
  struct Addresses {
    const char *a, *b, *c;
    char* d;
  };
  struct Steps {
    uint64_t a = 0, b = 0, c = 0, d = 0;  // of the outer loops, in bytes, bitwise or
  };

  // What the planner's places are aligned to at least.
  Alignments planned_alignments() const {
    const auto at = reinterpret_cast<const void*>(kScratchAlignment);
    return {alignment(at, steps_.a), alignment(at, steps_.b), alignment(at, steps_.c), alignment(at, steps_.d),
            alignment(at, 0)};
  }
  size_t most_workspace() const {
    return planned_context_ ? planned_.workspace_bytes : problem_.settings.workspace_bytes;
  }

  // Chooses the algorithm before the first run, so that no more memory is set aside than it uses. Where that fails, the
  // first run will tell.
  void plan() {
    descriptions_ = std::make_unique<Descriptions>(problem_);
    if (problem_.epilogue.bias) descriptions_->product.set_bias(reinterpret_cast<const void*>(kScratchAlignment));
    void* context = current_cuda_context();
    handle_ = handle_of(context);
    const Alignments alignments = planned_alignments();
    const CublasLtKey key = cublaslt_key(problem_, alignments, context);
    if (const auto known = find(key)) {
      planned_ = *known;
    } else {
      const auto candidates = heuristic(alignments, 1);
      if (candidates.empty()) return;
      planned_ = remember(key, candidates[0]);
    }
    planned_context_ = context;
  }

  // Sets the handle and the algorithm for the current context and these operands' alignments.
  void choose(const Addresses& at, const void* bias) {
    void* context = current_cuda_context();
    const Alignments alignments{alignment(at.a, steps_.a), alignment(at.b, steps_.b), alignment(at.c, steps_.c),
                                alignment(at.d, steps_.d), bias ? alignment(bias, 0) : 256};
    if (context == context_ && alignments == alignments_) return;
    context_ = nullptr;
    handle_ = handle_of(context);
    if (context == planned_context_ && alignments.cover(planned_alignments())) {
      choice_ = planned_;
    } else {
      problem_.settings.workspace_bytes = most_workspace();
      const CublasLtKey key = cublaslt_key(problem_, alignments, context);
      const auto known = find(key);
      choice_ = known ? *known : remember(key, choose_among(alignments, at));
    }
    context_ = context, alignments_ = alignments;
  }

  static std::optional<Choice> find(const CublasLtKey& key) {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    const auto found = s.choices.find(key);
    return found == s.choices.end() ? std::nullopt : std::optional(found->second);
  }
  static Choice remember(const CublasLtKey& key, const Choice& choice) {
    Shared& s = shared();
    std::lock_guard lock(s.mutex);
    return s.choices.emplace(key, choice).first->second;
  }

  Choice choose_among(const Alignments& alignments, const Addresses& at) {
    // Measuring waits for the stream, which a capture forbids, and repeats the product, which an addend in the result's
    // place does not survive.
    const bool measure =
        candidates_to_measure() > 1 && !(problem_.epilogue.addend && at.c == at.d) && !is_capturing(stream_);
    const auto candidates = heuristic(alignments, measure ? candidates_to_measure() : 1);
    if (candidates.empty())
      throw std::runtime_error("cuBLASLt has no algorithm for " + describe() + ", operands aligned to " +
                               std::to_string(alignments.a) + ", " + std::to_string(alignments.b) + ", " +
                               std::to_string(alignments.c) + " and " + std::to_string(alignments.d) + " bytes");
    if (candidates.size() == 1) return candidates[0];
    return fastest(candidates, stream_, [&](const Choice& c) { return enqueue(at, c); });
  }

  std::vector<Choice> heuristic(const Alignments& alignments, int most) const {
    const Descriptions& d = *descriptions_;
    const Preference preference(problem_, alignments);
    std::vector<cublasLtMatmulHeuristicResult_t> results(most);
    int found = 0;
    const auto status = api().cublasLtMatmulAlgoGetHeuristic(handle_, d.product, d.a, d.b, d.c, d.d, preference, most,
                                                             results.data(), &found);
    if (status != CUBLAS_STATUS_NOT_SUPPORTED) check(status, "choosing an algorithm for " + describe());
    std::vector<Choice> usable;
    for (int i = 0; i < found; ++i)
      if (results[i].state == CUBLAS_STATUS_SUCCESS) usable.push_back({results[i].algo, results[i].workspaceSize});
    return usable;
  }

  cublasStatus_t enqueue(const Addresses& at, const Choice& choice) const {
    const Descriptions& d = *descriptions_;
    const float alpha = problem_.epilogue.alpha, beta = problem_.epilogue.addend ? 1 : 0;
    const double wide_alpha = alpha, wide_beta = beta;
    const bool wide = problem_.type == DType::F64;  // the scalars have the scale type
    return api().cublasLtMatmul(handle_, d.product, wide ? static_cast<const void*>(&wide_alpha) : &alpha, at.a, d.a,
                                at.b, d.b, wide ? static_cast<const void*>(&wide_beta) : &beta, at.c, d.c, at.d, d.d,
                                &choice.algorithm, workspace_, choice.workspace_bytes,
                                static_cast<cudaStream_t>(stream_));
  }

  void each_outer(Addresses at, size_t loop) {
    if (loop == problem_.product.outer.size()) {
      const auto status = enqueue(at, choice_);
      if (status != CUBLAS_STATUS_SUCCESS) check(status, describe());
      return;
    }
    const auto& o = problem_.product.outer[loop];
    const int64_t in = ir::item_size(problem_.type), out = ir::item_size(problem_.out_type);
    for (int64_t i = 0; i < o.size; ++i) {
      each_outer(at, loop + 1);
      at.a += o.a * in, at.b += o.b * in, at.c += o.c * out, at.d += o.d * out;
    }
  }

  CublasLtProblem problem_;
  Steps steps_;
  void* stream_ = nullptr;
  std::unique_ptr<Descriptions> descriptions_;
  // The last choice, and what it was made for.
  void* context_ = nullptr;
  Alignments alignments_;
  cublasLtHandle_t handle_ = nullptr;
  Choice choice_;
  // That of plan(), for all who are aligned at least so.
  void* planned_context_ = nullptr;
  Choice planned_;
  void* workspace_ = nullptr;
};

class NoProduct final : public LibraryCall {
 public:
  void run(const void* const*, void* const*, void*) override {}
  std::string describe() const override { return "nothing"; }
};

// A sum of no products, as the product of a column and a row of zeros: so post-ops need no code of their own.
class EmptySum final : public LibraryCall {
 public:
  static std::unique_ptr<LibraryCall> make(const Layout& a, const Layout& b, const Layout& out,
                                           std::span<const PostOp> post_ops, const MatmulSettings& settings) {
    const size_t rank = out.shape.size();
    const auto zeros = [&](const Layout& operand, size_t summed, size_t kept) {
      Layout l{operand.dtype, operand.shape, ir::Dims(rank, 0)};
      l.shape[summed] = 1, l.strides[kept] = 1;
      return l;
    };
    const size_t bytes = std::max(out.shape[rank - 2], out.shape[rank - 1]) * ir::item_size(a.dtype);
    auto call =
        make_cublaslt_matmul(zeros(a, rank - 1, rank - 2), zeros(b, rank - 2, rank - 1), out, post_ops, settings);
    return call ? std::make_unique<EmptySum>(std::move(call), bytes, std::ranges::any_of(post_ops, has_operand))
                : nullptr;
  }
  EmptySum(std::unique_ptr<LibraryCall> call, size_t bytes, bool added)
      : call_(std::move(call)), at_(round_up_64(call_->scratch_bytes())), bytes_(bytes), added_(added) {}

  void on_stream(void* stream) override {
    stream_ = stream;
    call_->on_stream(stream);
  }
  size_t scratch_bytes() const override { return at_ + bytes_; }
  void run(const void* const* operands, void* const* results, void* scratch) override {
    void* zeros = static_cast<char*>(scratch) + at_;
    enqueue_zeros(zeros, bytes_, stream_);
    const void* inner[] = {zeros, zeros, added_ ? operands[2] : nullptr};
    call_->run(inner, results, scratch);
  }
  std::string describe() const override { return call_->describe() + " of zeros"; }

 private:
  std::unique_ptr<LibraryCall> call_;
  size_t at_, bytes_;
  bool added_;  // a post-op has an operand
  void* stream_ = nullptr;
};

bool multiplies(DType in, DType out) {
  return ir::is_floating(in) && (out == in || (ir::is_reduced_floating(in) && out == DType::F32));
}

}  // namespace

bool cublaslt_reads(const Layout& operand) { return blas_reads(operand); }

bool cublaslt_takes(DType type, std::span<const PostOp> post_ops, const Layout& out) {
  return multiplies(type, out.dtype) && blas_epilogue(type, post_ops, out).has_value();
}

std::unique_ptr<LibraryCall> make_cublaslt_matmul(const Layout& a, const Layout& b, const Layout& out,
                                                  std::span<const PostOp> post_ops, const MatmulSettings& settings) {
  check_matmul_operands(a, b, out);
  if (!multiplies(a.dtype, out.dtype)) return nullptr;
  if (ir::product(out.shape) == 0) return std::make_unique<NoProduct>();
  if (a.shape.back() == 0) return EmptySum::make(a, b, out, post_ops, settings);
  auto epilogue = blas_epilogue(a.dtype, post_ops, out);
  if (!epilogue) return nullptr;
  auto product = blas_product(a, b, out, epilogue->addend ? &*epilogue->addend : nullptr, epilogue->bias);
  if (!product) return nullptr;
  return std::make_unique<CublasLtMatmul>(
      CublasLtProblem{a.dtype, out.dtype, std::move(*product), std::move(*epilogue), settings});
}

}  // namespace lazuli::lowering
