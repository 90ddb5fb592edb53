// The interpretations of whole kinds, by the row's traits, and those that rows of the op table name. `out` holds one
// zeroed tensor per result.
#pragma once
#include "ir/interpret.h"

namespace lazuli::ir {

#define LAZULI_INTERPRET(name) void name(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out);
LAZULI_INTERPRET(interpret_elementwise)
LAZULI_INTERPRET(interpret_reduction)
LAZULI_INTERPRET(interpret_view)
LAZULI_INTERPRET(interpret_as_strided_scatter)
LAZULI_INTERPRET(interpret_cat)
LAZULI_INTERPRET(interpret_pad)
LAZULI_INTERPRET(interpret_gather)
LAZULI_INTERPRET(interpret_scatter)
LAZULI_INTERPRET(interpret_scatter_add)
LAZULI_INTERPRET(interpret_index_select)
LAZULI_INTERPRET(interpret_index_add)
LAZULI_INTERPRET(interpret_index_copy)
LAZULI_INTERPRET(interpret_matmul)
LAZULI_INTERPRET(interpret_int_mm)
LAZULI_INTERPRET(interpret_int4_mm)
LAZULI_INTERPRET(interpret_convolution)
LAZULI_INTERPRET(interpret_convolution_input_grad)
LAZULI_INTERPRET(interpret_convolution_weight_grad)
LAZULI_INTERPRET(interpret_lstm_layer)
LAZULI_INTERPRET(interpret_gru_layer)
LAZULI_INTERPRET(interpret_attention)
LAZULI_INTERPRET(interpret_attention_backward)
LAZULI_INTERPRET(interpret_cumsum)
LAZULI_INTERPRET(interpret_cumprod)
LAZULI_INTERPRET(interpret_linear_recurrence)
LAZULI_INTERPRET(interpret_max_pool2d)
LAZULI_INTERPRET(interpret_max_pool2d_grad)
LAZULI_INTERPRET(interpret_avg_pool2d)
LAZULI_INTERPRET(interpret_avg_pool2d_grad)
#undef LAZULI_INTERPRET

}  // namespace lazuli::ir
