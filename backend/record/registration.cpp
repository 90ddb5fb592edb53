#include "backend/record/registration.h"
#include "lazy/support/config.h"

namespace lazuli::backend {
namespace {

// What keeps numbers and moves them, and computes none; and what keeps them otherwise than in strides.
void register_memory(torch::Library& m) {
  register_copies(m);
  register_nested(m);
  register_overlapping_outputs(m);
  register_quantized(m);
  register_streams(m);
  register_views(m);
}

// What is recorded as rows.
void register_rows(torch::Library& m) {
  register_activations(m);
  register_advanced_indexing(m);
  register_arithmetic(m);
  register_attention(m);
  register_complex_functions(m);
  register_contractions(m);
  register_cudnn_recurrent(m);
  register_linear(m);
  register_explicit_fallbacks(m);
  register_filling(m);
  register_foreach(m);
  register_fused_optimizers(m);
  register_histogram(m);
  register_indexing(m);
  register_irregular_elementwise(m);
  register_losses(m);
  register_pixel_shuffle(m);
  register_pooling(m);
  register_normalization(m);
  register_one_hot(m);
  register_random(m);
  register_recurrent(m);
  register_reductions(m);
  register_sampling(m);
  register_scans(m);
  register_scattering(m);
  register_transformer_layer(m);
  register_triangles(m);
  register_upsampling(m);
  register_weight_norm(m);
  register_weights_of_few_bits(m);
  register_wider_operands(m);
  register_windows(m);
  register_table(m);
  register_structured(m);
}

// Operators that torch writes in others, and we otherwise. Their own key absent, both keys need them: tensors in
// inference mode have no autograd key.
void register_composites(torch::Library& m) {
  register_host_operands(m);
  register_max_pool1d(m);
  if (lazy::is_reference_mode()) {
    register_reference_composites(m);
  } else {
    register_complex_convolution(m);
    register_pad_circular(m);
    register_recurrent_networks(m);
  }
  register_quantile(m);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_memory(m);
  register_composites(m);
  if (lazy::is_reference_mode())
    register_reference(m);
  else
    register_rows(m);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, m) { register_composites(m); }

}  // namespace
}  // namespace lazuli::backend
