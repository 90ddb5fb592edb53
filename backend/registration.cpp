#include "backend/registration.h"

namespace lazuli::backend {

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  register_activations(m);
  register_advanced_indexing(m);
  register_arithmetic(m);
  register_attention(m);
  register_complex_functions(m);
  register_contractions(m);
  register_copies(m);
  register_explicit_fallbacks(m);
  register_foreach(m);
  register_fused_optimizers(m);
  register_histogram(m);
  register_indexing(m);
  register_irregular_elementwise(m);
  register_losses(m);
  register_pooling(m);
  register_nested(m);
  register_normalization(m);
  register_one_hot(m);
  register_overlapping_outputs(m);
  register_quantized(m);
  register_random(m);
  register_recurrent(m);
  register_reductions(m);
  register_sampling(m);
  register_scans(m);
  register_scattering(m);
  register_streams(m);
  register_triangles(m);
  register_upsampling(m);
  register_views(m);
  register_weight_norm(m);
  register_wider_operands(m);
  register_windows(m);
  register_table(m);
}

}  // namespace lazuli::backend
