// Steps that a library or a hand-scheduled routine serves: oneDNN for contractions, our own routines for the few
// data-movement ops that are no loop nest (scatter-add, pooling). A call is prepared once, with everything that
// depends on shapes decided, and then runs on pointers.
#pragma once
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>
#include "ir/type.h"

namespace lazuli::lowering {

// A strided operand. Pointers arrive already moved to the first element.
struct Layout {
  ir::DType dtype;
  ir::Dims shape;
  ir::Dims strides;  // elements; may be any permutation, padding or broadcast (0)
};

// What is done to each result element of a contraction before it is stored, in order. Results and operands are of
// floating types.
struct PostOp {
#define LAZULI_FUNCTIONS(X) \
  X(Relu) X(LeakyRelu) X(Clamp) X(GeluErf) X(GeluTanh) X(Sigmoid) X(Tanh) X(Silu) X(HardSwish) X(Scale)
#define LAZULI_NAME(name) name,
  enum Kind : uint8_t { Add, Mul, LAZULI_FUNCTIONS(LAZULI_NAME) } kind;
#undef LAZULI_NAME
  Layout operand{};  // Add, Mul: broadcast against the result (bias, residual); its pointer follows the main operands
  double alpha = 1;  // Scale: the factor. LeakyRelu: the slope. Clamp: the least result
  double beta = 0;   // Clamp: the largest result
  bool steady = false;  // Add, Mul: the next run will probably give the same numbers
};

// An index out of range, of an op for which torch's error is an IndexError.
struct IndexError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class LibraryCall {
 public:
  virtual ~LibraryCall() = default;
  // operands: the inputs in the order of the factory's arguments, then one per PostOp that has an operand.
  // scratch: scratch_bytes() bytes, 64-byte aligned. Threads of the backing pool may be used.
  virtual void run(const void* const* operands, void* const* results, void* scratch) = 0;
  // A GPU's calls: the stream of the runs that follow. Such a run only enqueues, and the device's context is current.
  virtual void on_stream(void* /*stream*/) {}
  virtual size_t scratch_bytes() const { return 0; }
  // Whether another number of threads may give other bits.
  virtual bool depends_on_threads() const { return false; }
  virtual std::string describe() const = 0;
};

// A call whose operand kPackedOperand (b of a matrix product, w of a convolution) seldom changes, as a parameter of a
// model that is not being trained: `pack` rewrites that operand, its only one, into `bytes` bytes, 64-byte aligned, in
// the order that the implementation reads, and `call` takes those bytes in the operand's place. `order` says which
// order: operands of the same bytes and equal orders pack to the same bytes. Where a post-op first multiplies by a few
// numbers, one for each channel, `pack` may do that instead: then it takes them, kFactorOperand, as its second operand,
// and `call` does not take them.
struct PackedCall {
  std::shared_ptr<LibraryCall> pack, call;
  size_t bytes = 0;
  std::string order;
  size_t factor_bytes = 0;  // 0: there is none
  // Makes what writes the operand's own bytes, all `unpacked_bytes` of them, from the packed ones. None: they do not
  // say all of it.
  std::function<std::unique_ptr<LibraryCall>()> unpacking;
  size_t unpacked_bytes = 0;
};
inline constexpr size_t kPackedOperand = 1, kFactorOperand = 2;

}  // namespace lazuli::lowering
