// Rows that no library of ours serves on the backing device run as torch's own kernels for them, on our buffers.
#pragma once
#include <optional>
#include <span>
#include <vector>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"
#include "jit/run/executable.h"

namespace lazuli::lazy {

// Whether torch may share a row over operands and results of these types out among OpenMP's threads: its kernels do so
// from a number of elements on, those that compute more for each, such as norms, from fewer on.
bool wakes_openmp(ir::Op op, std::span<const ir::Type* const> types);

// One dense buffer per result, with the strides asked for. Throws InternalError for a row that this table does not
// know.
std::vector<jit::Buffer> run_eager_row(const ir::Node& node, std::span<const jit::BufferView> inputs,
                                       std::span<const lowering::Layout> results);

// The same on tensors, with results as the kernel gives them. None for a row that the table does not know.
std::optional<std::vector<at::Tensor>> call_eager_row(const ir::Node& node, const std::vector<at::Tensor>& in);

}  // namespace lazuli::lazy
