// Code that a loop of ours executes, an instruction for a whole vector at a time: a translation of the IR that LLVM
// would compile, operation by operation, so that it gives the same bits. It is there in a tenth of the time that LLVM
// takes, and ten times slower than what LLVM makes: for kernels that run seldom, or over little.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace lazuli::jit::bytecode {

// Elements of values. A Bool is a byte, 0 or 1.
enum class Element : uint8_t { Bool, I8, I16, I32, I64, F32, F64 };
inline constexpr size_t kElements = 7;
constexpr size_t size_of(Element e) {
  constexpr size_t sizes[] = {1, 1, 2, 4, 8, 4, 8};
  return sizes[static_cast<size_t>(e)];
}

// Operands are places in the frame, in bytes.
struct Instruction;
using Operation = const Instruction* (*)(char* frame, const Instruction* i);
struct Instruction {
  Operation run;  // gives the next one; null: none
  uint32_t out, a, b, c;
  uint32_t lanes;
  uint32_t more;  // as the operation says
  union {
    int64_t number;
    const void* table;
    struct {
      int32_t yes, no;  // jumps, from this instruction
    } to;
  };
};

// What an instruction does, lane by lane, with a, b and c.
enum class Code : uint8_t {
  Add,
  Sub,
  Mul,
  Div,
  UDiv,
  URem,
  SDiv,
  SRem,
  And,
  Or,
  Xor,
  Shl,
  LShr,
  AShr,
  SMin,
  SMax,
  UMin,
  UMax,
  Eq,  // comparisons give a Bool; those of floating types are false on NaN but for Ne and those with U
  Ne,
  Lt,
  Le,
  Gt,
  Ge,
  OneF,
  Ord,
  Uno,
  UEq,
  ULt,
  ULe,
  UGt,
  UGe,
  Select,     // a (Bool) ? b : c
  SelectAll,  // the same for one Bool
  Fma,
  Neg,
  Abs,
  CopySign,
  Sqrt,
  Floor,
  Ceil,
  Trunc,
  RoundEven,
  Move,
  Splat,           // a, of one lane
  Shuffle,         // table: int32 by lane, of a's lanes (as many as `more`) and then b's
  AnyOf,           // Bool: whether a lane of a is not 0
  Load,            // a: the address
  Store,           // a to address b
  LoadMasked,      // where the lanes of b are, from a on; c elsewhere
  StoreMasked,     // a to b on where the lanes of c are
  Gather,          // a: addresses; b: mask; c elsewhere
  Scatter,         // a to addresses b where c is
  Address,         // a + b * more + number
  AddressOfLanes,  // the same with b of many lanes; Addresses: and a
  Addresses,
  FrameAddress,  // the frame + number
  Jump,
  Branch,  // on a
  End,
};
// Null where there is none.
Operation operation(Code code, Element element, uint32_t lanes);
Operation conversion(Element from, Element to, bool is_signed, uint32_t lanes);

struct Program {
  std::vector<Instruction> code;
  std::vector<char> constants;                        // where the frame begins
  std::vector<std::unique_ptr<const char[]>> tables;  // that instructions read
  size_t frame_bytes = 0;
  size_t looped = 0;       // instructions in innermost loops, which go over vectors
  uint32_t arguments = 0;  // where the frame has the arguments: an address and two numbers
  void run(const int64_t* args, int64_t begin, int64_t end) const;
  // What it takes to compile the same, about.
  int64_t compiling_ns() const { return 300'000 + 7'000 * static_cast<int64_t>(code.size()); }
};

}  // namespace lazuli::jit::bytecode
