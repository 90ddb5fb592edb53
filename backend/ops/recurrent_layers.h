// LSTM and GRU over sequences on the CPU where no gradient is wanted: for each layer and direction a product of all
// steps' inputs, and a row that goes through the steps (lstm_layer, gru_layer).
#pragma once
#include <optional>
#include "backend/ops/cudnn_recurrent.h"

namespace lazuli::backend {

// None: the network is not one that these rows serve, or its operands do not fit together.
std::optional<RecurrentResults> recurrent_layers(const RecurrentNetwork& network, const at::Tensor& input,
                                                 at::TensorList hx, at::TensorList parameters, bool batch_first);

}  // namespace lazuli::backend
