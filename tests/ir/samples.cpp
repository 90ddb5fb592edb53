#include "tests/ir/samples.h"
#include <map>
#include <tuple>
#include "ir/error.h"

namespace lazuli::ir::testing {
namespace {

// Away from kinks, and inside every domain, is 0.3 to 0.9, but for these.
const std::map<Op, std::pair<double, double>> kRanges = {
    {Op::acosh, {1.5, 3}}, {Op::logit, {0.2, 0.8}}, {Op::i0, {6, 10}}};

struct Text {
  const char* name;
  const char* graph;
};

// Inputs of i64 hold 0 and 1.
const Text kTexts[] = {
    {"sum", "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[2,2] = sum %0 [dims=1 keepdim=0]\nreturn %1"},
    {"sum_kept", "%0 : f64[2,3] = input [position=0]\n%1 : f64[1,1] = sum %0 [dims=[0,1] keepdim=1]\nreturn %1"},
    {"prod", "%0 : f64[2,3] = input [position=0]\n%1 : f64[2] = prod %0 [dims=1 keepdim=0]\nreturn %1"},
    {"amax", "%0 : f64[2,5] = input [position=0]\n%1 : f64[2] = amax %0 [dims=1 keepdim=0]\nreturn %1"},
    {"amin", "%0 : f64[2,5] = input [position=0]\n%1 : f64[1,5] = amin %0 [dims=0 keepdim=1]\nreturn %1"},
    {"reshape", "%0 : f64[2,3] = input [position=0]\n%1 : f64[3,2] = reshape %0 [shape=[3,2]]\nreturn %1"},
    {"permute", "%0 : f64[2,3,4] = input [position=0]\n%1 : f64[4,2,3] = permute %0 [order=[2,0,1]]\nreturn %1"},
    {"broadcast", "%0 : f64[3,1] = input [position=0]\n%1 : f64[2,3,4] = broadcast %0 [shape=[2,3,4]]\nreturn %1"},
    {"slice",
     "%0 : f64[4,5] = input [position=0]\n"
     "%1 : f64[2,3] = slice %0 [starts=[1,0] sizes=[2,3] steps=[1,1]]\nreturn %1"},
    {"slice_steps",
     "%0 : f64[4,5] = input [position=0]\n"
     "%1 : f64[2,2] = slice %0 [starts=[1,0] sizes=[2,2] steps=[2,3]]\nreturn %1"},
    {"flip", "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,3] = flip %0 [dims=1]\nreturn %1"},
    {"as_strided",
     "%0 : f64[12] = input [position=0]\n"
     "%1 : f64[3,2] = as_strided %0 [shape=[3,2] strides=[1,4] offset=2]\nreturn %1"},
    {"as_strided_overlapping",
     "%0 : f64[6] = input [position=0]\n"
     "%1 : f64[4,3] = as_strided %0 [shape=[4,3] strides=[1,1] offset=0]\nreturn %1"},
    {"as_strided_scatter",
     "%0 : f64[3,4] = input [position=0]\n%1 : f64[2,2] = input [position=1]\n"
     "%2 : f64[3,4] = as_strided_scatter %0, %1 [strides=[4,2] offset=1]\nreturn %2"},
    {"cat",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,1] = input [position=1]\n"
     "%2 : f64[2,4] = cat %0, %1 [dim=1]\nreturn %2"},
    {"pad",
     "%0 : f64[2,4] = input [position=0]\n%1 : f64[] = input [position=1]\n"
     "%2 : f64[4,4] = pad %0, %1 [low=[1,-1] high=[1,1]]\nreturn %2"},
    {"gather",
     "%0 : f64[2,3] = input [position=0]\n%1 : i64[4,3] = input [position=1]\n"
     "%2 : f64[4,3] = gather %0, %1 [dim=0]\nreturn %2"},
    {"scatter",
     "%0 : f64[2,3] = input [position=0]\n%1 : i64[1,3] = input [position=1]\n"
     "%2 : f64[1,3] = input [position=2]\n%3 : f64[2,3] = scatter %0, %1, %2 [dim=0]\nreturn %3"},
    {"scatter_add",
     "%0 : f64[2,3] = input [position=0]\n%1 : i64[4,3] = input [position=1]\n"
     "%2 : f64[4,3] = input [position=2]\n%3 : f64[2,3] = scatter_add %0, %1, %2 [dim=0]\nreturn %3"},
    {"index_select",
     "%0 : f64[2,3] = input [position=0]\n%1 : i64[2,2] = input [position=1]\n"
     "%2 : f64[2,2,3] = index_select %0, %1 [dim=0]\nreturn %2"},
    {"index_add",
     "%0 : f64[3,2] = input [position=0]\n%1 : i64[4] = input [position=1]\n"
     "%2 : f64[3,4] = input [position=2]\n%3 : f64[3,2] = index_add %0, %1, %2 [dim=1]\nreturn %3"},
    {"index_copy",
     "%0 : f64[3,3] = input [position=0]\n%1 : i64[2] = input [position=1]\n"
     "%2 : f64[3,2] = input [position=2]\n%3 : f64[3,3] = index_copy %0, %1, %2 [dim=1]\nreturn %3"},
    {"cumsum", "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[2,3,2] = cumsum %0 [dim=1]\nreturn %1"},
    {"prod_backward",
     "%0 : f64[2,1] = input [position=0]\n%1 : f64[2,3] = input [position=1]\n"
     "%2 : f64[2,3] = prod_backward %0, %1 [dims=1 keepdim=1]\nreturn %2"},
    {"prod_backward_of_several",
     "%0 : f64[3] = input [position=0]\n%1 : f64[2,3,2] = input [position=1]\n"
     "%2 : f64[2,3,2] = prod_backward %0, %1 [dims=[0,2] keepdim=0]\nreturn %2"},
    {"cumprod", "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[2,3,2] = cumprod %0 [dim=1]\nreturn %1"},
    {"linear_recurrence",
     "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[2,3,2] = input [position=1]\n"
     "%2 : f64[2,3,2] = linear_recurrence %0, %1 [dim=1 reverse=0]\nreturn %2"},
    {"linear_recurrence_reverse",
     "%0 : f64[4] = input [position=0]\n%1 : f64[4] = input [position=1]\n"
     "%2 : f64[4] = linear_recurrence %0, %1 [dim=0 reverse=1]\nreturn %2"},
    {"matmul",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[3,4] = input [position=1]\n"
     "%2 : f64[2,4] = matmul %0, %1\nreturn %2"},
    {"matmul_batch",
     "%0 : f64[2,2,3] = input [position=0]\n%1 : f64[2,3,2] = input [position=1]\n"
     "%2 : f64[2,2,2] = matmul %0, %1\nreturn %2"},
    {"attention",
     "%0 : f64[1,3,2,3] = input [position=0]\n%1 : f64[1,4,1,3] = input [position=1]\n%2 : f64[1,4,1,2] = input "
     "[position=2]\n"
     "%3 : f64[1,3,2,2], %4 : f64[1,2,3,2] = attention %0, %1, %2, _ [scale=4602678819172646912 causal=1]\nreturn %3"},
    {"attention_masked",
     "%0 : f64[2,2,2,3] = input [position=0]\n%1 : f64[2,3,2,3] = input [position=1]\n%2 : f64[2,3,2,1] = input "
     "[position=2]\n"
     "%3 : f64[1,2,1,3] = input [position=3]\n"
     "%4 : f64[2,2,2,1], %5 : f64[2,2,2,2] = attention %0, %1, %2, %3 [scale=4607182418800017408 causal=0]\nreturn %4, "
     "%5"},
    {"attention_backward",
     "%0 : f64[1,2,2,3] = input [position=0]\n%1 : f64[1,3,2,3] = input [position=1]\n%2 : f64[1,3,2,3] = input "
     "[position=2]\n"
     "%3 : f64[1,2,2,3] = input [position=3]\n"
     "%4 : f64[1,2,2,3], %5 : f64[1,2,2,2] = attention %0, %1, %2, _ [scale=4602678819172646912 causal=0]\n"
     "%6 : f64[1,2,2,3], %7 : f64[1,3,2,3], %8 : f64[1,3,2,3] = "
     "attention_backward %3, %0, %1, %2, %4, %5, _ [scale=4602678819172646912 causal=0]\nreturn %6, %7, %8"},
    {"convolution",
     "%0 : f64[2,4,5,4] = input [position=0]\n%1 : f64[2,2,3,2] = input [position=1]\n"
     "%2 : f64[2,2,3,4] = convolution %0, %1 [stride=[2,1] padding=[1,1] dilation=[1,2] transposed=0 "
     "output_padding=[0,0] groups=2]\nreturn %2"},
    {"convolution_transposed",
     "%0 : f64[1,4,3] = input [position=0]\n%1 : f64[4,1,3] = input [position=1]\n"
     "%2 : f64[1,2,6] = convolution %0, %1 [stride=2 padding=1 dilation=1 transposed=1 "
     "output_padding=1 groups=2]\nreturn %2"},
    {"convolution_input_grad",
     "%0 : f64[1,2,4] = input [position=0]\n%1 : f64[2,3,2] = input [position=1]\n"
     "%2 : f64[1,3,5] = convolution_input_grad %0, %1 [stride=1 padding=0 dilation=1 "
     "transposed=0 output_padding=0 groups=1 input_shape=[1,3,5]]\nreturn %2"},
    {"convolution_weight_grad",
     "%0 : f64[1,2,4] = input [position=0]\n%1 : f64[1,3,5] = input [position=1]\n"
     "%2 : f64[2,3,2] = convolution_weight_grad %0, %1 [stride=1 padding=0 dilation=1 "
     "transposed=0 output_padding=0 groups=1 weight_shape=[2,3,2]]\nreturn %2"},
    {"max_pool2d",
     "%0 : f64[1,2,5,5] = input [position=0]\n"
     "%1 : f64[1,2,3,3], %2 : i64[1,2,3,3] = max_pool2d %0 [kernel=[3,3] stride=[2,2] padding=[1,1] "
     "dilation=[1,1] ceil_mode=0]\nreturn %1"},
    {"max_pool2d_grad",
     "%0 : f64[2,2,2] = input [position=0]\n%1 : i64[2,2,2] = input [position=1]\n"
     "%2 : f64[2,3,3] = max_pool2d_grad %0, %1 [input_shape=[2,3,3]]\nreturn %2"},
    {"avg_pool2d",
     "%0 : f64[1,1,5,6] = input [position=0]\n"
     "%1 : f64[1,1,3,4] = avg_pool2d %0 [kernel=[2,3] stride=[2,2] padding=[0,1] ceil_mode=1 "
     "count_include_pad=0 divisor_override=0]\nreturn %1"},
    {"avg_pool2d_grad",
     "%0 : f64[1,2,2] = input [position=0]\n"
     "%1 : f64[1,4,4] = avg_pool2d_grad %0 [kernel=[2,2] stride=[2,2] padding=[0,0] ceil_mode=0 "
     "count_include_pad=1 divisor_override=3 input_shape=[1,4,4]]\nreturn %1"},
    {"mean", "%0 : f64[2,3] = input [position=0]\n%1 : f64[2] = mean %0 [dims=1 keepdim=0]\nreturn %1"},
    {"var",
     "%0 : f64[2,4] = input [position=0]\n%1 : f64[] = constant [value=1]\n"
     "%2 : f64[2,1] = var %0, %1 [dims=1 keepdim=1]\nreturn %2"},
    {"softmax", "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,3] = softmax %0 [dim=1]\nreturn %1"},
    {"softmax_number", "%0 : f64[] = input [position=0]\n%1 : f64[] = softmax %0 [dim=0]\nreturn %1"},
    {"log_softmax", "%0 : f64[3,2] = input [position=0]\n%1 : f64[3,2] = log_softmax %0 [dim=0]\nreturn %1"},
    {"softmax_backward",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,3] = input [position=1]\n"
     "%2 : f64[2,3] = softmax_backward %0, %1 [dim=1]\nreturn %2"},
    {"log_softmax_backward",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,3] = input [position=1]\n"
     "%2 : f64[2,3] = log_softmax_backward %0, %1 [dim=1]\nreturn %2"},
    {"layer_norm",
     "%0 : f64[2,4] = input [position=0]\n%1 : f64[4] = input [position=1]\n"
     "%2 : f64[4] = input [position=2]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[2,4], %5 : f64[2,1], %6 : f64[2,1] = layer_norm %0, %1, %2, %3 [dims=1]\nreturn %4"},
    {"layer_norm_plain",
     "%0 : f64[2,2,3] = input [position=0]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[2,2,3], %5 : f64[2,1,1], %6 : f64[2,1,1] = layer_norm %0, _, _, %3 [dims=2]\n"
     "return %4"},
    {"layer_norm_statistics",
     "%0 : f64[2,4] = input [position=0]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[2,4], %5 : f64[2,1], %6 : f64[2,1] = layer_norm %0, _, _, %3 [dims=1]\n"
     "return %4, %5, %6"},
    {"layer_norm_backward",
     "%0 : f64[2,4] = input [position=0]\n%1 : f64[2,4] = input [position=1]\n"
     "%2 : f64[2,1] = input [position=2]\n%3 : f64[2,1] = input [position=3]\n"
     "%4 : f64[4] = input [position=4]\n%5 : f64[2,4], %6 : f64[4], %7 : f64[4] = "
     "layer_norm_backward %0, %1, %2, %3, %4 [dims=1]\nreturn %5, %6, %7"},
    {"batch_norm",
     "%0 : f64[3,2,2] = input [position=0]\n%1 : f64[2] = input [position=1]\n"
     "%2 : f64[2] = input [position=2]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[3,2,2], %5 : f64[2], %6 : f64[2], %7 : f64[2] = batch_norm %0, %1, %2, %3 [folded=0]\nreturn %4"},
    {"batch_norm_all",
     "%0 : f64[3,2,2] = input [position=0]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[3,2,2], %5 : f64[2], %6 : f64[2], %7 : f64[2] = batch_norm %0, _, _, %3 [folded=0]\n"
     "return %4, %5, %6, %7"},
    {"batch_norm_backward",
     "%0 : f64[2,2,3] = input [position=0]\n%1 : f64[2,2,3] = input [position=1]\n"
     "%2 : f64[2] = input [position=2]\n%3 : f64[2] = input [position=3]\n"
     "%4 : f64[2] = input [position=4]\n%5 : f64[2,2,3], %6 : f64[2], %7 : f64[2] = "
     "batch_norm_backward %0, %1, %2, %3, %4 [folded=0]\nreturn %5, %6, %7"},
    {"batch_norm_inference",
     "%0 : f64[2,2,3] = input [position=0]\n%1 : f64[2] = input [position=1]\n"
     "%2 : f64[2] = input [position=2]\n%3 : f64[2] = input [position=3]\n"
     "%4 : f64[2] = input [position=4]\n%5 : f64[] = constant [value=0.01]\n"
     "%6 : f64[2,2,3] = batch_norm_inference %0, %1, %2, %3, %4, %5 [folded=0]\nreturn %6"},
    {"batch_norm_inference_backward",
     "%0 : f64[2,2] = input [position=0]\n%1 : f64[2,2] = input [position=1]\n%2 : f64[2] = input [position=2]\n"
     "%3 : f64[2] = input [position=3]\n%4 : f64[2] = input [position=4]\n%5 : f64[] = constant [value=0.01]\n"
     "%6 : f64[2,2], %7 : f64[2], %8 : f64[2] = batch_norm_inference_backward %0, %1, %2, %3, %4, %5 [folded=0]\n"
     "return %6, %7, %8"},
    {"group_norm",
     "%0 : f64[2,4,2] = input [position=0]\n%1 : f64[4] = input [position=1]\n"
     "%2 : f64[4] = input [position=2]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[2,4,2], %5 : f64[2,2], %6 : f64[2,2] = group_norm %0, %1, %2, %3 [groups=2 folded=0]\nreturn %4"},
    {"group_norm_backward",
     "%0 : f64[2,4,2] = input [position=0]\n%1 : f64[2,4,2] = input [position=1]\n"
     "%2 : f64[2,2] = input [position=2]\n%3 : f64[2,2] = input [position=3]\n"
     "%4 : f64[4] = input [position=4]\n%5 : f64[2,4,2], %6 : f64[4], %7 : f64[4] = "
     "group_norm_backward %0, %1, %2, %3, %4 [groups=2 folded=0]\nreturn %5, %6, %7"},
    {"batch_norm_folded",
     "%0 : f64[3,2,2] = input [position=0]\n%1 : f64[2] = input [position=1]\n"
     "%2 : f64[2] = input [position=2]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[3,2,2], %5 : f64[2], %6 : f64[2], %7 : f64[2] = batch_norm %0, %1, %2, %3 [folded=1]\n"
     "return %4, %5, %6, %7"},
    {"batch_norm_inference_folded",
     "%0 : f64[2,2,3] = input [position=0]\n%1 : f64[2] = input [position=1]\n%2 : f64[2] = input [position=2]\n"
     "%3 : f64[2] = input [position=3]\n%4 : f64[2] = input [position=4]\n%5 : f64[] = constant [value=0.01]\n"
     "%6 : f64[2,2,3] = batch_norm_inference %0, _, %2, %3, %4, %5 [folded=1]\n"
     "%7 : f64[2,2,3] = batch_norm_inference %0, %1, _, %3, %4, %5 [folded=1]\nreturn %6, %7"},
    {"group_norm_folded",
     "%0 : f64[2,4,2] = input [position=0]\n%1 : f64[4] = input [position=1]\n"
     "%2 : f64[4] = input [position=2]\n%3 : f64[] = constant [value=0.01]\n"
     "%4 : f64[2,4,2], %5 : f64[2,2], %6 : f64[2,2] = group_norm %0, %1, %2, %3 [groups=2 folded=1]\nreturn %4"},
    {"nll_loss",
     "%0 : f64[3,4] = input [position=0]\n%1 : i64[3] = input [position=1]\n"
     "%2 : f64[4] = input [position=2]\n"
     "%3 : f64[], %4 : f64[] = nll_loss %0, %1, %2 [reduction=1 ignore_index=-100]\nreturn %3"},
    {"nll_loss_none",
     "%0 : f64[2,3,2] = input [position=0]\n%1 : i64[2,2] = input [position=1]\n"
     "%3 : f64[2,2], %4 : f64[] = nll_loss %0, %1, _ [reduction=0 ignore_index=1]\nreturn %3"},
    {"nll_loss_backward",
     "%0 : f64[] = input [position=0]\n%1 : f64[3,2] = input [position=1]\n"
     "%2 : i64[3] = input [position=2]\n%3 : f64[] = input [position=3]\n%4 : f64[3,2] = "
     "nll_loss_backward %0, %1, %2, _, %3 [reduction=1 ignore_index=-100]\nreturn %4"},
    {"mse_loss",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,3] = input [position=1]\n"
     "%2 : f64[] = mse_loss %0, %1 [reduction=1]\nreturn %2"},
    {"mse_loss_backward",
     "%0 : f64[] = input [position=0]\n%1 : f64[2,3] = input [position=1]\n"
     "%2 : f64[2,3] = input [position=2]\n"
     "%3 : f64[2,3] = mse_loss_backward %0, %1, %2 [reduction=2]\nreturn %3"},
    {"embedding_backward",
     "%0 : f64[2,2,3] = input [position=0]\n%1 : i64[2,2] = input [position=1]\n"
     "%2 : f64[3,3] = embedding_backward %0, %1 [rows=3 padding=1]\nreturn %2"},
    {"adam_step",
     "%0 : f64[3] = input [position=0]\n%1 : f64[3] = input [position=1]\n%2 : f64[3] = input [position=2]\n"
     "%3 : f64[3] = input [position=3]\n%4 : f64[3] = input [position=4]\n%5 : f64[] = constant [value=2]\n"
     "%6 : f64[] = constant [value=0.1]\n%7 : f64[3], %8 : f64[3], %9 : f64[3], %10 : f64[3] = "
     "adam_step %0, %1, %2, %3, %4, %5, %6, %6, %6, %6, %6, _, _, _ [decoupled=0 maximize=1]\nreturn %7, %8"},
    {"sgd_step",
     "%0 : f64[3] = input [position=0]\n%1 : f64[3] = input [position=1]\n%2 : f64[3] = input [position=2]\n"
     "%3 : f64[] = input [position=3]\n%4 : f64[3], %5 : f64[3] = "
     "sgd_step %0, %1, %2, %3, %3, %3, %3, _ [nesterov=1 maximize=0]\nreturn %4, %5"},
    {"adagrad_step",
     "%0 : f64[3] = input [position=0]\n%1 : f64[3] = input [position=1]\n%2 : f64[3] = input [position=2]\n"
     "%3 : f64[] = constant [value=3]\n%4 : f64[] = input [position=3]\n%5 : f64[3], %6 : f64[3] = "
     "adagrad_step %0, %1, %2, %3, %4, %4, %4, %4, _ [maximize=0]\nreturn %5, %6"},
    {"complex_mul",
     "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[3,2] = input [position=1]\n"
     "%2 : f64[2,3,2] = complex_mul %0, %1 [real=0]\nreturn %2"},
    {"complex_mul_by_real",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[2,1,2] = input [position=1]\n"
     "%2 : f64[2,3,2] = complex_mul %0, %1 [real=1]\nreturn %2"},
    {"complex_div",
     "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[3,2] = input [position=1]\n"
     "%2 : f64[2,3,2] = complex_div %0, %1 [real=0]\nreturn %2"},
    {"complex_div_by_real",
     "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[] = input [position=1]\n"
     "%2 : f64[2,3,2] = complex_div %0, %1 [real=2]\nreturn %2"},
    {"complex_conj", "%0 : f64[3,2] = input [position=0]\n%1 : f64[3,2] = complex_conj %0\nreturn %1"},
    {"complex_exp", "%0 : f64[3,2] = input [position=0]\n%1 : f64[3,2] = complex_exp %0\nreturn %1"},
    {"complex_sgn", "%0 : f64[3,2] = input [position=0]\n%1 : f64[3,2] = complex_sgn %0\nreturn %1"},
    {"complex_abs", "%0 : f64[2,3,2] = input [position=0]\n%1 : f64[2,3] = complex_abs %0\nreturn %1"},
    {"polar",
     "%0 : f64[2,3] = input [position=0]\n%1 : f64[3] = input [position=1]\n"
     "%2 : f64[2,3,2] = polar %0, %1\nreturn %2"},
};

Graph elementwise_graph(Op op) {
  Graph g;
  GraphBuilder b(g);
  const OpInfo& row = info(op);
  std::vector<Value> operands;
  for (int i = 0; i < row.arity; ++i) {
    bool condition = op == Op::where && i == 0;
    // The last operand broadcasts, so that derivatives are summed back.
    Dims shape = i > 0 && i + 1 == row.arity ? Dims{3} : Dims{2, 3};
    operands.push_back(b.input({condition ? DType::Bool : DType::F64, shape}));
  }
  Attrs attrs;
  if (!row.attrs[0].empty()) attrs.add(static_cast<int64_t>(DType::F64));
  g.outputs = {b.emit(op, operands, attrs)};
  return g;
}

}  // namespace

std::vector<Sample> elementwise_samples() {
  std::vector<Sample> samples;
  for (size_t i = 0; i < kOpCount; ++i) {
    Op op = static_cast<Op>(i);
    Sample s{std::string(name(op)), {}};
    if (!is_elementwise(op) || op == Op::random_uniform) continue;
    try {
      s.graph = elementwise_graph(op);
    } catch (const TypeError&) {
      continue;  // bits: not for floating types
    }
    if (!is_floating(s.graph.type(s.graph.outputs[0]).dtype)) continue;
    if (auto it = kRanges.find(op); it != kRanges.end()) std::tie(s.low, s.high) = it->second;
    samples.push_back(std::move(s));
  }
  return samples;
}

std::vector<Sample> other_samples() {
  std::vector<Sample> samples;
  for (const Text& t : kTexts) samples.push_back({t.name, parse(t.graph)});
  return samples;
}

}  // namespace lazuli::ir::testing
