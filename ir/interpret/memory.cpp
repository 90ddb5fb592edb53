// Numbers in memory: the reduced floating types are widened by their bits and rounded to nearest even.
#include <cstring>
#include "ir/interpret/number.h"
#include "ir/interpret/scalar.h"

namespace lazuli::ir {
namespace {

template <class T>
T read(const void* p) {
  T x;
  std::memcpy(&x, p, sizeof x);
  return x;
}
template <class T>
void write(void* p, T x) {
  std::memcpy(p, &x, sizeof x);
}

}  // namespace

Number load_number(const void* p, DType type) {
  switch (type) {
    case DType::Bool:
      return {0, read<uint8_t>(p) != 0};
    case DType::U8:
      return {0, read<uint8_t>(p)};
    case DType::I8:
      return {0, read<int8_t>(p)};
    case DType::I16:
      return {0, read<int16_t>(p)};
    case DType::I32:
      return {0, read<int32_t>(p)};
    case DType::I64:
      return {0, read<int64_t>(p)};
    case DType::F16:
      return {from_f16(read<uint16_t>(p)), 0};
    case DType::BF16:
      return {from_bf16(read<uint16_t>(p)), 0};
    case DType::F32:
      return {read<float>(p), 0};
    case DType::F64:
      return {read<double>(p), 0};
    default:
      throw InternalError("kernels do not load this element type");
  }
}

void store_number(void* p, DType type, Number x) {
  switch (type) {
    case DType::Bool:
    case DType::U8:
    case DType::I8:
      return write(p, static_cast<uint8_t>(x.i));
    case DType::I16:
      return write(p, static_cast<int16_t>(x.i));
    case DType::I32:
      return write(p, static_cast<int32_t>(x.i));
    case DType::I64:
      return write(p, x.i);
    case DType::F16:
      return write(p, to_f16(static_cast<float>(x.f)));
    case DType::BF16:
      return write(p, to_bf16(static_cast<float>(x.f)));
    case DType::F32:
      return write(p, static_cast<float>(x.f));
    case DType::F64:
      return write(p, x.f);
    default:
      throw InternalError("kernels do not store this element type");
  }
}

}  // namespace lazuli::ir
