// Rows that no library of ours serves on the backing device run as torch's own kernels for them, on our buffers.
#pragma once
#include <optional>
#include <span>
#include <vector>
#include <ATen/core/Tensor.h>
#include "ir/graph.h"
#include "jit/run/executable.h"

namespace lazuli::lazy {

// One dense buffer per result, with the strides asked for. Throws InternalError for a row that this table does not
// know.
std::vector<jit::Buffer> run_eager_row(const ir::Node& node, std::span<const jit::BufferView> inputs,
                                       std::span<const lowering::Layout> results);

// The same on tensors, with results as the kernel gives them. None for a row that the table does not know.
std::optional<std::vector<at::Tensor>> call_eager_row(const ir::Node& node, const std::vector<at::Tensor>& in);

}  // namespace lazuli::lazy
