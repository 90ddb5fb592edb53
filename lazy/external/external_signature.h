// The signature of an external call: the operator with its constant arguments and the geometry of its tensor arguments.
// Calls with equal signatures share their analysis and their number in the trace.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>
#include <c10/core/GradMode.h>
#include "lazy/support/convert.h"

namespace lazuli::lazy {

struct Geometry {
  uint32_t storage = 0;  // which of the call's storages
  c10::ScalarType type = c10::ScalarType::Undefined;
  ir::Dims sizes, strides;
  int64_t offset = 0;
  bool conj = false, neg = false;  // the view bits of complex tensors
  friend bool operator==(const Geometry&, const Geometry&) = default;
};

// The geometry of t, on storage 0.
Geometry geometry_of(const at::Tensor& t);
// Gives a tensor the geometry's view bits.
void set_view_bits(const at::Tensor& t, const Geometry& g);

// The type of the memory behind a dense geometry: its dimensions in memory order.
ir::Type memory_type(const Geometry& g);

// Whether the operator writes this argument: what its schema says, but for running statistics, of which it says
// nothing.
bool writes(const c10::FunctionSchema& schema, size_t argument);

// Whether this argument is a number that may be another one in each call of a signature: `int seed` and `int offset` of
// our own operators, which say where in a generator's sequence a call draws. Such an operator has `int drawn` too: how
// many numbers it may take there.
bool is_run_number(const c10::FunctionSchema& schema, size_t argument);

struct Slot {  // where a lazuli tensor stands among the arguments
  size_t argument;
  int64_t element;  // in a tensor list; -1 = the argument itself
  size_t same;      // the first slot that holds this very tensor: a kernel that writes one of its operands asks
  Geometry geometry;
};

struct Signature {
  c10::OperatorHandle op;
  std::string key;
  torch::jit::Stack arguments;  // lazuli tensors left out
  std::vector<Slot> slots;
  std::vector<size_t> run_numbers;  // which arguments
  std::vector<int64_t> storage_bytes;
  caffe2::TypeMeta default_type = c10::get_default_dtype();  // of results that no argument gives a type
  bool grad_mode = c10::GradMode::is_enabled();              // a recurrent layer returns more for backward

  // The arguments with these tensors in the slots, these run-time numbers, and every device argument replaced.
  torch::jit::Stack rebuild(const std::vector<at::Tensor>& tensors, std::span<const int64_t> numbers,
                            c10::Device device) const;
  std::string name() const { return toString(op.operator_name()); }
};

// One particular call: its tensors, and all that tells its signature from others. Most calls have a known signature, so
// this much is found out without making one.
struct Bound {
  struct Place {
    uint32_t argument;
    int32_t element;  // likewise, as for a slot
    uint32_t same, storage;
  };
  c10::SmallVector<Place, 4> places;     // by slot
  std::vector<at::Tensor> tensors;       // likewise
  std::vector<at::Tensor> storages;      // one tensor per storage
  c10::SmallVector<int64_t, 2> numbers;  // of the run, in the order of arguments
  std::string_view key;                  // until this thread binds another call
  bool describable = true;               // false: some argument has no constant form (a generator, an object)
};

// Throws torch's device-mix error when a CPU tensor that is not a plain number stands among lazuli tensors.
Bound bind_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack);
Signature signature_of(const c10::OperatorHandle& op, const torch::jit::Stack& stack, const Bound& bound);

}  // namespace lazuli::lazy
