#include "backend/torch_internals/packed_linear.h"
#include <cstring>
#include <typeinfo>

namespace lazuli::backend {

bool are_exact(const LinearPackedParamsBase& packed, bool half_range) {
#if defined(__x86_64__)
  if (!half_range && !__builtin_cpu_supports("avx512vnni")) return false;
  return std::strcmp(typeid(packed).name(), "18PackedLinearWeight") == 0;
#else
  return false;
#endif
}

at::Tensor weights_of(LinearPackedParamsBase& packed) { return std::get<0>(packed.unpack()); }

std::optional<at::Tensor> bias_of(LinearPackedParamsBase& packed) { return packed.bias(); }

}  // namespace lazuli::backend
