// The op table's form. Everything about an op derives from its row in ops/*.def: the enum, printing and parsing,
// shape rule, interpreter, fusion, code, derivative, registration with torch. Code outside the rows asks traits.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>
#include "ir/scalar.h"
#include "ir/type.h"

namespace lazuli::ir {

enum class Op : uint16_t {
#define OP(name, ...) name,
#include "ir/ops/all.def"
#undef OP
};
#define OP(name, ...) +1
inline constexpr size_t kOpCount = 0
#include "ir/ops/all.def"
    ;
#undef OP

enum class Kind : uint8_t {
  Leaf,         // input, scalar, constant, iota: no operands
  Elementwise,  // a scalar body over broadcasting operands
  Reduction,    // attributes dims, keepdim
  View,         // rearranges its one operand without computing: an index map
  Index,        // moves elements by position or by an index operand
  Contraction,  // matmul and convolution: library calls
  Window,       // pooling, scans
  Composite,    // has a decomposition into other rows, its own or derived
  External,     // the backing device's eager kernel
};
// How operand types make the result's.
enum class Result : uint8_t {
  Same,  // the operands' common type (conditions and indices aside)
  Bool,
  Attr,  // the type that attribute 0 names
};
// How recording promotes operands before the row sees them (torch's categories).
enum class Promote : uint8_t {
  None,      // tensors must agree, and be floating: what else there is, eager refuses
  Common,    // torch.result_type of the operands
  First,     // the first operand's; the others are numbers, and take its type
  Floating,  // likewise, then integral types become the default floating type
};
// What the derivative reads; drives retention when the row becomes an autograd node.
enum Saves : uint8_t { SavesNothing = 0, SavesInputs = 1, SavesOutputs = 2, SavesBoth = 3 };

class Attrs;
class Builder;
struct Value;
struct Node;
struct Tensor;       // interpret.h
struct Application;  // builder.h: operands, results and attributes of one application

// A row's scalar formula, from a captureless lambda over Scalars.
struct Body {
  Scalar (*call)(const Scalar* operands) = nullptr;
  int arity = 0;
  constexpr Body() = default;
  constexpr Body(Scalar (*f)(const Scalar*), int n) : call(f), arity(n) {}
  template <class F>
  constexpr Body(F f) : Body(f, &F::operator()) {}
  // By arity: under -fsanitize=undefined GCC does not compare a function with null in constant expressions.
  explicit constexpr operator bool() const { return arity != 0; }

 private:
  template <class F, class... A>
  constexpr Body(F, Scalar (F::*)(A...) const)
      : call([](const Scalar* x) -> Scalar { return expand<F>(x, std::make_index_sequence<sizeof...(A)>{}); }),
        arity(sizeof...(A)) {}
  template <class F, size_t... I>
  static Scalar expand(const Scalar* x, std::index_sequence<I...>) {
    return F{}(x[I]...);
  }
};

// How a Reduction row combines elements; Max and Min propagate NaN, Arg* give the first position in row-major order.
enum class Combine : uint8_t { Sum, Prod, Max, Min, Any, All, ArgMax, ArgMin };
// Where the elements of a View row's result lie in its dense operand: element (i, j, ...) of the result is element
// offset + i * strides[0] + j * strides[1] + ... of the operand. Every view has this form (a reshape's strides are
// the contiguous ones of its result), so interpreter, fusion and external calls know views by it alone.
struct StridedWindow {
  Dims strides;
  Size offset = 0;
};
using WindowFn = StridedWindow (*)(const Type& operand, const Attrs& attrs, const Type& result);
using InferFn = void (*)(std::span<const Type* const> inputs, const Attrs& attrs, std::span<Type> results);
using DecomposeFn = void (*)(Builder& b, const Application& a, std::span<Value> results);
// Cotangents of the results in (absent where nothing flows), cotangents of the inputs out; `needs` masks inputs.
using VjpFn = void (*)(Builder& b, const Application& a, std::span<const Value> cotangents, uint32_t needs,
                       std::span<Value> out);

// Terms that one element of the result adds up.
using TermsFn = int64_t (*)(std::span<const Type* const> inputs, const Attrs& attrs, const Type& result);

// What the reference interpreter does: operands to zeroed results of the node's types.
using InterpretFn = void (*)(const Node& node, std::span<const Tensor* const> inputs, std::span<Tensor> results);

inline constexpr Op kNoOp = static_cast<Op>(0xFFFF);

// Where an operand of a derivative row comes from: a result's cotangent, an input or a saved output of the row
// that it is the derivative of.
struct Role {
  enum From : uint8_t { None, Cotangent, Input, Output } from = None;
  uint8_t index = 0;
};
constexpr Role cotangent(uint8_t i) { return {Role::Cotangent, i}; }
constexpr Role operand(uint8_t i) { return {Role::Input, i}; }
constexpr Role saved(uint8_t i) { return {Role::Output, i}; }

struct OpInfo {
  Kind kind = Kind::Leaf;
  int arity = 0;                            // operands; -1 = any number
  int results = 1;                          // -1 = as many as the application says
  uint32_t optional = 0;                    // bit i: operand i may be an absent Value
  std::array<std::string_view, 8> attrs{};  // names, in order
  bool checks_index = false;  // an index out of range is an error when it runs; rows with a body say so there
  Result result = Result::Same;
  Promote promote = Promote::None;
  // Numbers beside tensors of narrow floating type are rounded to it, rather than to float32. Which, is torch's whim.
  bool rounds_numbers = false;
  // Beside a tensor of narrow floating type torch's kernel for the CPU takes a second one that has no dimensions as a
  // number, in float32.
  bool wide_second = false;
  // Numbers beside tensors of float32 and float64 are a model's settings, which do not change: they are part of the
  // code, so that a library can be told them. Others may be different each time.
  bool fixed_numbers = false;
  Saves saves = SavesInputs;
  Body body{};                     // Elementwise
  bool exact = false;              // its results are, although steps of the body could round
  InferFn infer = nullptr;         // other kinds; Elementwise rows have the broadcasting rule
  Combine combine = Combine::Sum;  // Reduction
  WindowFn window = nullptr;       // View
  VjpFn vjp = nullptr;             // null on Elementwise: derived from the body; else from the decomposition
  // Composite; of other kinds only what the row has no derivative row for is derived from it.
  DecomposeFn decompose = nullptr;
  // This row is the derivative of another: its operands (in ATen's order) play `roles`, and result i is the cotangent
  // of that row's input wrt[i]. Body or decomposition is derived from that row unless this row has its own.
  Op derivative_of = kNoOp;
  std::array<Role, 10> roles{};
  std::array<int8_t, 4> wrt{0, -1, -1, -1};
  InterpretFn interpret = nullptr;  // Index, Contraction, Window; the other kinds' traits say it all
  TermsFn terms = nullptr;          // likewise: null where nothing is added up (rounding.h)
  bool images = false;              // operands and results are [N, C, spatial...], which may lie channels-last
  std::string_view aten{};          // the ATen operators that record it, separated by spaces
  // The ATen operators that compute it, where those that record it do not: tensors among their arguments are the row's
  // operands in order, others its attributes in order, or have their defaults.
  std::string_view computed_by{};
  std::string_view doc{};
  std::string_view name{};  // filled by the table
};

// Constant-initialized, so that asking a trait is one indexed load.
extern const std::array<OpInfo, kOpCount> kOps;
inline const OpInfo& info(Op op) { return kOps[static_cast<size_t>(op)]; }
inline std::string_view name(Op op) { return info(op).name; }
bool parse_op(std::string_view name, Op& out);

inline bool is_elementwise(Op op) { return info(op).kind == Kind::Elementwise; }
inline bool is_reduction(Op op) { return info(op).kind == Kind::Reduction; }
inline bool is_view(Op op) { return info(op).kind == Kind::View; }
inline bool is_leaf(Op op) { return info(op).kind == Kind::Leaf; }
inline bool is_composite(Op op) { return info(op).kind == Kind::Composite; }
// Equal applications give equal results, so one may stand for the other.
inline bool is_pure(Op op) { return info(op).kind != Kind::External && op != Op::uninitialized; }
// Result types are given with the application rather than inferred from its operands.
inline bool takes_types(Op op) {
  return (info(op).kind == Kind::Leaf && op != Op::iota) || info(op).kind == Kind::External;
}
inline bool is_recurrent(Op op) { return op == Op::lstm_layer || op == Op::gru_layer; }
inline bool is_contraction(Op op) { return info(op).kind == Kind::Contraction; }

}  // namespace lazuli::ir
