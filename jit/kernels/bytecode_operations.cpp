// Each operation is one function for each kind of element and number of lanes. None does two operations of floating
// types, so that the compiler has nothing to contract.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>
#include <immintrin.h>
#include "jit/kernels/bytecode.h"
#include "lowering/instruction_sets/instruction_sets.h"

namespace lazuli::jit::bytecode {
namespace {

// N lanes; 0: as many as the instruction says.
template <class T, unsigned N>
struct LanesOf {
  typedef T type __attribute__((vector_size(N * sizeof(T)), aligned(sizeof(T)), may_alias));
};
template <class T>
struct LanesOf<T, 1> {
  typedef T type __attribute__((may_alias));
};
template <class T>
struct LanesOf<T, 0> {
  typedef T type __attribute__((may_alias));
};
template <class T, unsigned N>
using Lanes = typename LanesOf<T, N>::type;
template <class T>
using SizedInt = std::conditional_t<
    sizeof(T) == 1, int8_t,
    std::conditional_t<sizeof(T) == 2, int16_t, std::conditional_t<sizeof(T) == 4, int32_t, int64_t>>>;
template <class T>
using Unsigned = std::make_unsigned_t<SizedInt<T>>;

#define LAZULI_AT(T, N, place) (*reinterpret_cast<Lanes<T, N>*>(f + (place)))
#define LAZULI_LANE(T, place, l) (reinterpret_cast<Lanes<T, 1>*>(f + (place))[l])
#define LAZULI_OPERATION(name, ...)                                           \
  template <class T, unsigned N>                                              \
  LAZULI_TARGET_AVX2 const Instruction* name(char* f, const Instruction* i) { \
    __VA_ARGS__                                                               \
    return i + 1;                                                             \
  }
// The expression is over x, y and z: whole vectors where they are of a known size.
#define LAZULI_UNARY(name, expression)                                  \
  LAZULI_OPERATION(                                                     \
      name,                                                             \
      if constexpr (N > 0) {                                            \
        const auto x = LAZULI_AT(T, N, i->a);                           \
        LAZULI_AT(T, N, i->out) = static_cast<Lanes<T, N>>(expression); \
      } else for (uint32_t l = 0; l < i->lanes; ++l) {                  \
        const auto x = LAZULI_LANE(T, i->a, l);                         \
        LAZULI_LANE(T, i->out, l) = static_cast<T>(expression);         \
      })
#define LAZULI_BINARY(name, expression)                                      \
  LAZULI_OPERATION(                                                          \
      name,                                                                  \
      if constexpr (N > 0) {                                                 \
        const auto x = LAZULI_AT(T, N, i->a), y = LAZULI_AT(T, N, i->b);     \
        LAZULI_AT(T, N, i->out) = static_cast<Lanes<T, N>>(expression);      \
      } else for (uint32_t l = 0; l < i->lanes; ++l) {                       \
        const auto x = LAZULI_LANE(T, i->a, l), y = LAZULI_LANE(T, i->b, l); \
        LAZULI_LANE(T, i->out, l) = static_cast<T>(expression);              \
      })
#define LAZULI_COMPARISON(name, expression)                                                               \
  LAZULI_OPERATION(                                                                                       \
      name,                                                                                               \
      if constexpr (N > 1) {                                                                              \
        const auto x = LAZULI_AT(T, N, i->a), y = LAZULI_AT(T, N, i->b);                                  \
        LAZULI_AT(int8_t, N, i->out) = __builtin_convertvector(expression, Lanes<int8_t, N>) & int8_t{1}; \
      } else for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) {                                          \
        const auto x = LAZULI_LANE(T, i->a, l), y = LAZULI_LANE(T, i->b, l);                              \
        LAZULI_LANE(int8_t, i->out, l) = static_cast<int8_t>((expression) & 1);                           \
      })
// Of floating types: eight lanes of float or four of double at a time, by `packed`, and one by one by `single`.
#define LAZULI_CHUNKS(name, operands, packed32, packed64, single)                                   \
  LAZULI_OPERATION(                                                                                 \
      name,                                                                                         \
      if constexpr (N > 1 && std::is_same_v<T, float> && N % 8 == 0) {                              \
        for (unsigned l = 0; l < N; l += 8) {                                                       \
          const auto at = [&](uint32_t place) { return reinterpret_cast<float*>(f + place) + l; };  \
          LAZULI_PACKED_##operands(_mm256_loadu_ps) _mm256_storeu_ps(at(i->out), packed32);         \
        }                                                                                           \
      } else if constexpr (N > 1 && std::is_same_v<T, double> && N % 4 == 0) {                      \
        for (unsigned l = 0; l < N; l += 4) {                                                       \
          const auto at = [&](uint32_t place) { return reinterpret_cast<double*>(f + place) + l; }; \
          LAZULI_PACKED_##operands(_mm256_loadu_pd) _mm256_storeu_pd(at(i->out), packed64);         \
        }                                                                                           \
      } else for (uint32_t l = 0; l < (N ? N : i->lanes);                                           \
                  ++l) { LAZULI_SINGLE_##operands LAZULI_LANE(T, i->out, l) = single; })
#define LAZULI_PACKED_1(load) const auto x = load(at(i->a));
#define LAZULI_PACKED_3(load) const auto x = load(at(i->a)), y = load(at(i->b)), z = load(at(i->c));
#define LAZULI_SINGLE_1 const T x = LAZULI_LANE(T, i->a, l);
#define LAZULI_SINGLE_3 const T x = LAZULI_LANE(T, i->a, l), y = LAZULI_LANE(T, i->b, l), z = LAZULI_LANE(T, i->c, l);

LAZULI_BINARY(add, x + y)
LAZULI_BINARY(sub, x - y)
LAZULI_BINARY(mul, x* y)
LAZULI_BINARY(div, x / y)
LAZULI_BINARY(rem, x % y)
LAZULI_BINARY(bit_and, x& y)
LAZULI_BINARY(bit_or, x | y)
LAZULI_BINARY(bit_xor, x ^ y)
LAZULI_BINARY(shift_left, x << y)
LAZULI_BINARY(shift_right, x >> y)
LAZULI_BINARY(least, x < y ? x : y)
LAZULI_BINARY(most, x > y ? x : y)
LAZULI_COMPARISON(eq, x == y)
LAZULI_COMPARISON(ne, x != y)
LAZULI_COMPARISON(lt, x < y)
LAZULI_COMPARISON(le, x <= y)
LAZULI_COMPARISON(gt, x > y)
LAZULI_COMPARISON(ge, x >= y)
LAZULI_COMPARISON(ordered, (x == x) & (y == y))
LAZULI_COMPARISON(unordered, (x != x) | (y != y))
LAZULI_COMPARISON(differs, (x < y) | (x > y))
LAZULI_COMPARISON(not_less_or_greater, ~((x < y) | (x > y)))
LAZULI_COMPARISON(not_lt, ~(x < y))
LAZULI_COMPARISON(not_le, ~(x <= y))
LAZULI_COMPARISON(not_gt, ~(x > y))
LAZULI_COMPARISON(not_ge, ~(x >= y))
LAZULI_CHUNKS(fma3, 3, _mm256_fmadd_ps(x, y, z), _mm256_fmadd_pd(x, y, z), std::fma(x, y, z))
template <class T>
LAZULI_TARGET_AVX2 T root(T x) {
  if constexpr (sizeof(T) == 4)
    return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(x)));
  else
    return _mm_cvtsd_f64(_mm_sqrt_sd(_mm_set_sd(x), _mm_set_sd(x)));
}
LAZULI_CHUNKS(square_root, 1, _mm256_sqrt_ps(x), _mm256_sqrt_pd(x), root(x))
#define LAZULI_ROUND(name, how)                                                                                        \
  LAZULI_CHUNKS(name, 1, _mm256_round_ps(x, (how) | _MM_FROUND_NO_EXC), _mm256_round_pd(x, (how) | _MM_FROUND_NO_EXC), \
                (rounded < T, (how) | _MM_FROUND_NO_EXC > (x)))
template <class T, int How>
LAZULI_TARGET_AVX2 T rounded(T x) {
  if constexpr (sizeof(T) == 4)
    return _mm_cvtss_f32(_mm_round_ss(_mm_set_ss(x), _mm_set_ss(x), How));
  else
    return _mm_cvtsd_f64(_mm_round_sd(_mm_set_sd(x), _mm_set_sd(x), How));
}
LAZULI_ROUND(round_even, _MM_FROUND_TO_NEAREST_INT)
LAZULI_ROUND(round_down, _MM_FROUND_TO_NEG_INF)
LAZULI_ROUND(round_up, _MM_FROUND_TO_POS_INF)
LAZULI_ROUND(round_to_zero, _MM_FROUND_TO_ZERO)

// Over the bits of floating types.
template <class T>
constexpr Unsigned<T> kSign = Unsigned<T>{1} << (8 * sizeof(T) - 1);
LAZULI_UNARY(flip_sign, x ^ kSign<T>)
LAZULI_UNARY(clear_sign, x& static_cast<T>(~kSign<T>))
LAZULI_BINARY(copy_sign, (x & static_cast<T>(~kSign<T>)) | (y & kSign<T>))

LAZULI_OPERATION(
    select,
    if constexpr (N > 1) {
      const auto mask = __builtin_convertvector(LAZULI_AT(int8_t, N, i->a), Lanes<T, N>) != 0;
      LAZULI_AT(T, N, i->out) = mask ? LAZULI_AT(T, N, i->b) : LAZULI_AT(T, N, i->c);
    } else for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) {
      LAZULI_LANE(T, i->out, l) = LAZULI_LANE(int8_t, i->a, l) ? LAZULI_LANE(T, i->b, l) : LAZULI_LANE(T, i->c, l);
    })
LAZULI_OPERATION(move, std::memmove(f + i->out, f + i->a, (N ? N : i->lanes) * sizeof(T));)
LAZULI_OPERATION(select_all, std::memmove(f + i->out, f + (LAZULI_LANE(int8_t, i->a, 0) ? i->b : i->c),
                                          (N ? N : i->lanes) * sizeof(T));)
LAZULI_OPERATION(
    splat, if constexpr (N > 1) {
      LAZULI_AT(T, N, i->out) = LAZULI_LANE(T, i->a, 0) - Lanes<T, N>{};
    } else for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) LAZULI_LANE(T, i->out, l) = LAZULI_LANE(T, i->a, 0);)
LAZULI_OPERATION(
    shuffle, const auto* from = static_cast<const int32_t*>(i->table);
    for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) {
      const auto at = static_cast<uint32_t>(from[l]);
      LAZULI_LANE(T, i->out, l) = at < i->more ? LAZULI_LANE(T, i->a, at) : LAZULI_LANE(T, i->b, at - i->more);
    })
LAZULI_OPERATION(any_of, T all = 0; for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) all |= LAZULI_LANE(T, i->a, l);
                 LAZULI_LANE(int8_t, i->out, 0) = all != 0;)

#define LAZULI_ADDRESS(place) (*reinterpret_cast<char* const*>(f + (place)))
LAZULI_OPERATION(load, std::memcpy(f + i->out, LAZULI_ADDRESS(i->a), (N ? N : i->lanes) * sizeof(T));)
LAZULI_OPERATION(store, std::memcpy(LAZULI_ADDRESS(i->b), f + i->a, (N ? N : i->lanes) * sizeof(T));)
LAZULI_OPERATION(
    load_masked, const char* from = LAZULI_ADDRESS(i->a); for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) {
      if (LAZULI_LANE(int8_t, i->b, l))
        std::memcpy(f + i->out + l * sizeof(T), from + l * sizeof(T), sizeof(T));
      else
        LAZULI_LANE(T, i->out, l) = LAZULI_LANE(T, i->c, l);
    })
LAZULI_OPERATION(store_masked, char* to = LAZULI_ADDRESS(i->b);
                 for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) if (LAZULI_LANE(int8_t, i->c, l))
                     std::memcpy(to + l * sizeof(T), f + i->a + l * sizeof(T), sizeof(T));)
LAZULI_OPERATION(
    gather, for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) {
      if (LAZULI_LANE(int8_t, i->b, l))
        std::memcpy(f + i->out + l * sizeof(T), LAZULI_ADDRESS(i->a + l * 8), sizeof(T));
      else
        LAZULI_LANE(T, i->out, l) = LAZULI_LANE(T, i->c, l);
    })
LAZULI_OPERATION(scatter, for (uint32_t l = 0; l < (N ? N : i->lanes); ++l) if (LAZULI_LANE(int8_t, i->c, l))
                              std::memcpy(LAZULI_ADDRESS(i->b + l * 8), f + i->a + l * sizeof(T), sizeof(T));)

LAZULI_OPERATION(address, LAZULI_LANE(T, i->out, 0) = LAZULI_LANE(T, i->a, 0) +
                                                      LAZULI_LANE(T, i->b, 0) * static_cast<T>(i->more) +
                                                      static_cast<T>(i->number);)
LAZULI_OPERATION(addresses, for (uint32_t l = 0; l < (N ? N : i->lanes); ++l)
                                LAZULI_LANE(T, i->out, l) = LAZULI_LANE(T, i->a, l) +
                                                            LAZULI_LANE(T, i->b, l) * static_cast<T>(i->more) +
                                                            static_cast<T>(i->number);)
LAZULI_OPERATION(address_of_lanes, for (uint32_t l = 0; l < (N ? N : i->lanes); ++l)
                                       LAZULI_LANE(T, i->out, l) = LAZULI_LANE(T, i->a, 0) +
                                                                   LAZULI_LANE(T, i->b, l) * static_cast<T>(i->more) +
                                                                   static_cast<T>(i->number);)
LAZULI_OPERATION(frame_address, LAZULI_LANE(T, i->out, 0) = reinterpret_cast<T>(f) + static_cast<T>(i->number);)

const Instruction* jump(char*, const Instruction* i) { return i + i->to.yes; }
const Instruction* branch(char* f, const Instruction* i) {
  return i + (LAZULI_LANE(int8_t, i->a, 0) ? i->to.yes : i->to.no);
}
const Instruction* end(char*, const Instruction*) { return nullptr; }

template <class To, class From, unsigned N>
LAZULI_TARGET_AVX2 const Instruction* convert(char* f, const Instruction* i) {
  if constexpr (N > 1)
    LAZULI_AT(To, N, i->out) = __builtin_convertvector(LAZULI_AT(From, N, i->a), Lanes<To, N>);
  else
    for (uint32_t l = 0; l < (N ? N : i->lanes); ++l)
      LAZULI_LANE(To, i->out, l) = static_cast<To>(LAZULI_LANE(From, i->a, l));
  return i + 1;
}

// Calls f with the number of lanes that an operation is compiled for.
template <class F>
Operation with_lanes(uint32_t lanes, F f) {
  switch (lanes) {
    case 1:
      return f(std::integral_constant<unsigned, 1>());
    case 8:
      return f(std::integral_constant<unsigned, 8>());
    case 16:
      return f(std::integral_constant<unsigned, 16>());
    default:
      return f(std::integral_constant<unsigned, 0>());
  }
}

template <class T, unsigned N>
Operation of_integers(Code code) {
  using U = std::make_unsigned_t<T>;
  switch (code) {
    case Code::Add:
      return add<U, N>;
    case Code::Sub:
      return sub<U, N>;
    case Code::Mul:
      return mul<U, N>;
    case Code::UDiv:
      return div<U, N>;
    case Code::URem:
      return rem<U, N>;
    case Code::SDiv:
      return div<T, N>;
    case Code::SRem:
      return rem<T, N>;
    case Code::Shl:
      return shift_left<U, N>;
    case Code::LShr:
      return shift_right<U, N>;
    case Code::AShr:
      return shift_right<T, N>;
    case Code::SMin:
      return least<T, N>;
    case Code::SMax:
      return most<T, N>;
    case Code::UMin:
      return least<U, N>;
    case Code::UMax:
      return most<U, N>;
    case Code::Lt:
      return lt<T, N>;
    case Code::Le:
      return le<T, N>;
    case Code::Gt:
      return gt<T, N>;
    case Code::Ge:
      return ge<T, N>;
    case Code::ULt:
      return lt<U, N>;
    case Code::ULe:
      return le<U, N>;
    case Code::UGt:
      return gt<U, N>;
    case Code::UGe:
      return ge<U, N>;
    default:
      return nullptr;
  }
}

template <class T, unsigned N>
Operation of_floating(Code code) {
  using Bits = Unsigned<T>;
  switch (code) {
    case Code::Add:
      return add<T, N>;
    case Code::Sub:
      return sub<T, N>;
    case Code::Mul:
      return mul<T, N>;
    case Code::Div:
      return div<T, N>;
    case Code::Fma:
      return fma3<T, N>;
    case Code::Neg:
      return flip_sign<Bits, N>;
    case Code::Abs:
      return clear_sign<Bits, N>;
    case Code::CopySign:
      return copy_sign<Bits, N>;
    case Code::Sqrt:
      return square_root<T, N>;
    case Code::Floor:
      return round_down<T, N>;
    case Code::Ceil:
      return round_up<T, N>;
    case Code::Trunc:
      return round_to_zero<T, N>;
    case Code::RoundEven:
      return round_even<T, N>;
    case Code::Eq:
      return eq<T, N>;
    case Code::Ne:
      return ne<T, N>;
    case Code::Lt:
      return lt<T, N>;
    case Code::Le:
      return le<T, N>;
    case Code::Gt:
      return gt<T, N>;
    case Code::Ge:
      return ge<T, N>;
    case Code::OneF:
      return differs<T, N>;
    case Code::Ord:
      return ordered<T, N>;
    case Code::Uno:
      return unordered<T, N>;
    case Code::UEq:
      return not_less_or_greater<T, N>;
    case Code::ULt:
      return not_ge<T, N>;
    case Code::ULe:
      return not_gt<T, N>;
    case Code::UGt:
      return not_le<T, N>;
    case Code::UGe:
      return not_lt<T, N>;
    default:
      return nullptr;
  }
}

// Those that only move bits.
template <class T, unsigned N>
Operation of_bits(Code code) {
  switch (code) {
    case Code::And:
      return bit_and<T, N>;
    case Code::Or:
      return bit_or<T, N>;
    case Code::Xor:
      return bit_xor<T, N>;
    case Code::Eq:
      return eq<T, N>;
    case Code::Ne:
      return ne<T, N>;
    case Code::Select:
      return select<T, N>;
    case Code::SelectAll:
      return select_all<T, N>;
    case Code::Move:
      return move<T, N>;
    case Code::Splat:
      return splat<T, N>;
    case Code::Shuffle:
      return shuffle<T, N>;
    case Code::AnyOf:
      return any_of<T, N>;
    case Code::Load:
      return load<T, N>;
    case Code::Store:
      return store<T, N>;
    case Code::LoadMasked:
      return load_masked<T, N>;
    case Code::StoreMasked:
      return store_masked<T, N>;
    case Code::Gather:
      return gather<T, N>;
    case Code::Scatter:
      return scatter<T, N>;
    default:
      return nullptr;
  }
}

template <class F>
Operation with_integer(Element element, F f) {
  switch (element) {
    case Element::Bool:
    case Element::I8:
      return f(int8_t());
    case Element::I16:
      return f(int16_t());
    case Element::I32:
    case Element::F32:
      return f(int32_t());
    default:
      return f(int64_t());
  }
}

bool is_floating(Element e) { return e == Element::F32 || e == Element::F64; }

template <class To, class From>
Operation convert_to(uint32_t lanes) {
  return with_lanes(lanes, [](auto n) -> Operation { return convert<To, From, n()>; });
}

// Conversions of integers to wider ones; From is signed or not.
template <class From>
Operation widen(Element to, uint32_t lanes) {
  switch (to) {
    case Element::I8:
      return convert_to<int8_t, From>(lanes);
    case Element::I16:
      return convert_to<int16_t, From>(lanes);
    case Element::I32:
      return convert_to<int32_t, From>(lanes);
    case Element::I64:
      return convert_to<int64_t, From>(lanes);
    case Element::F32:
      return convert_to<float, From>(lanes);
    case Element::F64:
      return convert_to<double, From>(lanes);
    default:
      return nullptr;
  }
}

}  // namespace

Operation operation(Code code, Element element, uint32_t lanes) {
  switch (code) {
    case Code::Address:
      return address<int64_t, 1>;
    case Code::AddressOfLanes:
      return with_lanes(lanes, [](auto n) -> Operation { return address_of_lanes<int64_t, n()>; });
    case Code::Addresses:
      return with_lanes(lanes, [](auto n) -> Operation { return addresses<int64_t, n()>; });
    case Code::FrameAddress:
      return frame_address<int64_t, 1>;
    case Code::Jump:
      return jump;
    case Code::Branch:
      return branch;
    case Code::End:
      return end;
    default:
      break;
  }
  return with_lanes(lanes, [&](auto n) -> Operation {
    if (element == Element::F32)
      if (const Operation found = of_floating<float, n()>(code)) return found;
    if (element == Element::F64)
      if (const Operation found = of_floating<double, n()>(code)) return found;
    return with_integer(element, [&](auto zero) -> Operation {
      using T = decltype(zero);
      if (const Operation found = of_bits<T, n()>(code)) return found;
      // Arithmetic of Bools would not stay 0 or 1.
      return element == Element::Bool || is_floating(element) ? nullptr : of_integers<T, n()>(code);
    });
  });
}

Operation conversion(Element from, Element to, bool is_signed, uint32_t lanes) {
  if (from == Element::F32)
    return to == Element::F64                ? convert_to<double, float>(lanes)
           : to == Element::I32 && is_signed ? convert_to<int32_t, float>(lanes)
           : to == Element::I64 && is_signed ? convert_to<int64_t, float>(lanes)
                                             : nullptr;
  if (from == Element::F64)
    return to == Element::F32                ? convert_to<float, double>(lanes)
           : to == Element::I32 && is_signed ? convert_to<int32_t, double>(lanes)
           : to == Element::I64 && is_signed ? convert_to<int64_t, double>(lanes)
                                             : nullptr;
  if (to == Element::Bool || (from == Element::Bool && is_signed)) return nullptr;
  return with_integer(from, [&](auto zero) -> Operation {
    using T = decltype(zero);
    return is_signed ? widen<T>(to, lanes) : widen<std::make_unsigned_t<T>>(to, lanes);
  });
}

namespace {

// A thread's memory for frames: it runs one kernel at a time. It may do so even when its thread-locals are gone.
struct FrameMemory {
  static constexpr size_t kAlignment = 64;
  char* memory = nullptr;
  size_t bytes = 0;
  ~FrameMemory() { free(); }
  void free() {
    std::free(std::exchange(memory, nullptr));
    bytes = 0;
  }
  char* of(size_t wanted) {
    if (bytes >= wanted) return memory;
    free();
    const size_t rounded = (2 * wanted + kAlignment - 1) / kAlignment * kAlignment;
    memory = static_cast<char*>(std::aligned_alloc(kAlignment, rounded));
    if (!memory) throw std::bad_alloc();
    bytes = rounded;
    return memory;
  }
};

}  // namespace

void Program::run(const int64_t* args, int64_t begin, int64_t end) const {
  thread_local FrameMemory memory;
  char* frame = memory.of(frame_bytes);
  std::memcpy(frame, constants.data(), constants.size());
  const int64_t given[] = {reinterpret_cast<int64_t>(args), begin, end};
  std::memcpy(frame + arguments, given, sizeof given);
  for (const Instruction* i = code.data(); i;) i = i->run(frame, i);
}

}  // namespace lazuli::jit::bytecode
