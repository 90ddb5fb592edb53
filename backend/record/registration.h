// Registration of our kernels with torch's dispatcher, in one visible order.
#pragma once
#include <torch/library.h>

namespace lazuli::backend {

void register_activations(torch::Library& m);
void register_advanced_indexing(torch::Library& m);
void register_arithmetic(torch::Library& m);
void register_attention(torch::Library& m);
void register_complex_convolution(torch::Library& m);
void register_complex_functions(torch::Library& m);
void register_contractions(torch::Library& m);
void register_copies(torch::Library& m);
void register_cudnn_recurrent(torch::Library& m);
void register_explicit_fallbacks(torch::Library& m);
void register_filling(torch::Library& m);
void register_foreach(torch::Library& m);
void register_fused_optimizers(torch::Library& m);
void register_histogram(torch::Library& m);
void register_host_operands(torch::Library& m);
void register_indexing(torch::Library& m);
void register_irregular_elementwise(torch::Library& m);
void register_linear(torch::Library& m);
void register_losses(torch::Library& m);
void register_pad_circular(torch::Library& m);
void register_pixel_shuffle(torch::Library& m);
void register_pooling(torch::Library& m);
void register_max_pool1d(torch::Library& m);
void register_nested(torch::Library& m);
void register_normalization(torch::Library& m);
void register_one_hot(torch::Library& m);
void register_overlapping_outputs(torch::Library& m);
void register_quantile(torch::Library& m);
void register_quantized(torch::Library& m);
void register_random(torch::Library& m);
void register_recurrent(torch::Library& m);
void register_recurrent_networks(torch::Library& m);
void register_reductions(torch::Library& m);
void register_sampling(torch::Library& m);
void register_scans(torch::Library& m);
void register_scattering(torch::Library& m);
void register_streams(torch::Library& m);
void register_structured(torch::Library& m);  // after what is recorded as rows
void register_transformer_layer(torch::Library& m);
void register_triangles(torch::Library& m);
void register_upsampling(torch::Library& m);
void register_views(torch::Library& m);
void register_weight_norm(torch::Library& m);
void register_weights_of_few_bits(torch::Library& m);
void register_wider_operands(torch::Library& m);
void register_windows(torch::Library& m);
// Reference mode (lazy/support/config.h): torch's own kernels, for all that computes, and what torch writes in other
// operators as it does for the backing device. Last, too.
void register_reference(torch::Library& m);
void register_reference_composites(torch::Library& m);
void register_reference_autocast(torch::Library& m);
// The regular elementwise rows of the op table; last, since it leaves alone what has a kernel already.
void register_table(torch::Library& m);

}  // namespace lazuli::backend
