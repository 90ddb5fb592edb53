#include "jit/devices/cpu/index_checks.h"
#include <algorithm>
#include <stdexcept>
#include "jit/executor.h"

namespace lazuli::jit {
namespace {

// The first element of a strided window that is not in [first, size), or null.
template <class T>
const T* find_outside(const char* data, const lowering::Loops& loops, const ir::Dims& strides, size_t d,
                      const lowering::IndexCheck& c) {
  const T* at = reinterpret_cast<const T*>(data);
  if (d == strides.size()) return *at < c.first || *at >= c.size ? at : nullptr;
  const int64_t n = strides[d] == 0 ? std::min<int64_t>(loops.sizes[d], 1) : loops.sizes[d];
  if (d + 1 < strides.size()) {
    for (int64_t k = 0; k < n; ++k)
      if (const T* bad = find_outside<T>(data + k * strides[d] * sizeof(T), loops, strides, d + 1, c)) return bad;
    return nullptr;
  }
  bool ok = true;
  for (int64_t k = 0; k < n; ++k) ok &= at[k * strides[d]] >= c.first && at[k * strides[d]] < c.size;
  for (int64_t k = 0; !ok; ++k)
    if (at[k * strides[d]] < c.first || at[k * strides[d]] >= c.size) return at + k * strides[d];
  return nullptr;
}

template <class T>
void check_index(const char* data, const lowering::Loops& loops, const lowering::IndexCheck& c) {
  const T* bad = find_outside<T>(data, loops, loops.accesses[c.access].strides, 0, c);
  if (!bad) return;
  // torch's words: those of embedding, and of indexing.
  throw std::out_of_range(c.first == 0 ? "index out of range in self"
                                       : "index " + std::to_string(*bad) +
                                             " is out of bounds for dimension with size " + std::to_string(c.size));
}

}  // namespace

IndexChecks::IndexChecks(const ir::Graph& graph, const lowering::PlanStep& step) : step_(step) {
  for (const lowering::IndexCheck& c : step.loops.checks) where_.push_back(where(graph, c.by.node));
}

void IndexChecks::run(std::span<const Buffer> memory) const {
  const lowering::Loops& loops = step_.loops;
  for (size_t i = 0; i < loops.checks.size(); ++i) {
    const lowering::IndexCheck& c = loops.checks[i];
    const ir::DType type = loops.nest.accesses[c.access].dtype;
    const char* data = static_cast<const char*>(memory[step_.blocks[c.access]].data) +
                       loops.accesses[c.access].offset * ir::item_size(type);
    try {
      if (type == ir::DType::I64) check_index<int64_t>(data, loops, c);
      if (type == ir::DType::I32) check_index<int32_t>(data, loops, c);
    } catch (const std::out_of_range& e) {
      throw ExecutionError(where_[i] + ": " + e.what());
    }
  }
}

}  // namespace lazuli::jit
