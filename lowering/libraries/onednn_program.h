// What both oneDNN's products and its convolutions are made of. A Program is a few primitives over operands, result and
// scratch; all descriptors and memory objects are made once, and a run only sets addresses. The one file that includes
// oneDNN's header.
#pragma once
#include <functional>
#include <optional>
#include <string_view>
#include <oneapi/dnnl/dnnl.hpp>
#include "lowering/libraries/post_ops.h"
#include "lowering/libraries/primitive.h"
#include "lowering/libraries/strided_copy.h"
#include "lowering/threads/crew.h"
#include "lowering/threads/little_work.h"

namespace lazuli::lowering::onednn {

using dnnl::memory;
using Descriptor = memory::desc;

const dnnl::engine& engine();
memory::data_type data_type(ir::DType dtype);
// Dimensions of stride 0 become dimensions of size 1, which is how oneDNN spells a broadcast.
Descriptor descriptor(Layout layout);
inline Descriptor any_layout(const Descriptor& d) {
  return Descriptor(d.get_dims(), d.get_data_type(), memory::format_tag::any);
}

// Where a value of a program lives while it runs.
struct Value {
  enum Place : uint8_t { Operand, Result, Scratch } place = Operand;
  size_t at = 0;  // operand number, or offset in scratch
  Descriptor descriptor;
};

class Program final : public LibraryCall {
 public:
  Value scratch(const Descriptor& d);
  void add(const dnnl::primitive& primitive, const Descriptor& scratchpad, std::vector<std::pair<int, Value>> args,
           std::string_view implementation);
  // Makes `to` hold `from`; nothing when they are laid out alike.
  void reorder(const Value& from, const Value& to);

  // The last post-ops, done here.
  struct Tail {
    std::vector<PostOp> ops;  // broadcast to the result
    Layout result;
    size_t operands_at;
    // The program without them: it runs where the processor notes numbers that oneDNN's kernels do not treat as eager
    // does. None: this program is without them.
    std::function<std::unique_ptr<Program>()> rest;
  };
  void finish_with(Tail tail) { tail_.emplace(std::move(tail)); }

  void run(const void* const* operands, void* const* results, void* scratch) override;
  size_t scratch_bytes() const override { return bytes_; }
  std::string describe() const override { return "onednn:" + text_; }
  bool depends_on_threads() const override { return threads_ > 1; }

 private:
  void run_here(const void* const* operands, void* const* results, void* scratch);
  void finish(const void* const* operands, void* const* results) const;
  void execute(const void* const* operands, void* const* results, void* scratch);
  const int threads_ = omp_get_max_threads();  // that it is made for
  struct Binding {
    dnnl::memory memory;
    Value::Place place;
    size_t at;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<dnnl_exec_arg_t> args;
  };
  static void check(dnnl_status_t status) {
    if (status != dnnl_success) throw std::runtime_error("oneDNN failed with status " + std::to_string(status));
  }

  dnnl::stream stream_{engine()};
  std::vector<Binding> bindings_;
  std::vector<Step> steps_;
  size_t bytes_ = 0;
  std::string text_;
  std::optional<Tail> tail_;
  std::unique_ptr<Program> rest_;
  bool finds_old_flags_ = false;  // of kernels that ran before
};

// oneDNN's kernels lose nan at a relu or a clamp: the processor's maximum gives its second operand then. How many of
// the ops come before the first; none: there is none.
std::optional<size_t> ops_that_keep_nan(std::span<const PostOp> ops);
Program::Tail tail_from(std::span<const PostOp> ops, size_t kept, const Layout& result);

// `make` is given how many ops are left inside.
template <class Make>
void watch_nan(Program& p, std::span<const PostOp> ops, const Layout& result, Make make) {
  const auto kept = ops_that_keep_nan(ops);
  if (!kept) return;
  Program::Tail tail = tail_from(ops, *kept, result);
  tail.rest = [make, kept = *kept] { return make(kept); };
  p.finish_with(std::move(tail));
}

// How many post-ops are left to the kernel. Of a small result such an op is done here: looking at the flags of all
// threads would cost as much.
size_t ops_inside(std::span<const PostOp> ops, const Layout& result);

// Makes a program with the ops that are left to the kernel, and does the others after it.
template <class Make>
std::unique_ptr<Program> finished(std::span<const PostOp> ops, const Layout& result, Make make) {
  const size_t inside = ops_inside(ops, result);
  std::unique_ptr<Program> p = make(ops.first(inside));
  if (p && inside < ops.size()) p->finish_with(tail_from(ops, inside, result));
  return p;
}

bool fast(const dnnl::primitive_desc_base& pd);

// Attributes for `ops`, and the values that they read: operands number `first` and on.
struct Attributes {
  dnnl::primitive_attr attr;
  std::vector<std::pair<int, Value>> args;
};

Attributes attributes(std::span<const PostOp> ops, const ir::Dims& shape, size_t first);

// oneDNN takes a broadcast only where it broadcasts itself: in dimensions before the `trailing` last.
bool describable(const Layout& layout, size_t trailing);

// The packing of operand kPackedOperand from `given` to `wanted`; nothing where there is nothing to do, or where the
// order has no name. An order without blocks is none that a kernel was made for: without AVX-512 products would have
// columns side by side, for which they are slower than for rows (256 x 3072 x 768: 145 against 238 GFLOP/s).
PackedCall packing(const Descriptor& given, const Descriptor& wanted);

}  // namespace lazuli::lowering::onednn
