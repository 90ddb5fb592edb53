// Notices a CPU tensor that is copied to the device again though nothing has changed in it: explain() then shows it
// with its Python line.
#pragma once
#include <ATen/core/Tensor.h>

namespace lazuli::lazy {

// `host` is copied to the device now.
void note_move(const at::Tensor& host);

}  // namespace lazuli::lazy
