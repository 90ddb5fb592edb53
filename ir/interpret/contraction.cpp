// Contractions: sums of products.
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

// Adds products into positions of y, and rounds once at the end.
template <class T>
class Products {
 public:
  explicit Products(Tensor& y) : y_(y), sums_(static_cast<size_t>(y.type.numel())) {}
  void add(int64_t at, const Tensor& a, int64_t i, const Tensor& b, int64_t k) {
    using A = Accumulator<T>;
    sums_[static_cast<size_t>(at)] += static_cast<A>(load<T>(a, i)) * static_cast<A>(load<T>(b, k));
  }
  ~Products() {
    for (size_t i = 0; i < sums_.size(); ++i) store<T>(y_, static_cast<int64_t>(i), static_cast<T>(sums_[i]));
  }

 private:
  Tensor& y_;
  std::vector<Accumulator<T>> sums_;
};

// Calls f(x position, w position, y position) for every product of a plain convolution of x with w to y.
template <class F>
void for_each_plain_product(const Attrs& attrs, std::span<const int64_t> x, std::span<const int64_t> w,
                            std::span<const int64_t> y, F f) {
  auto stride = attrs.list(0), padding = attrs.list(1), dilation = attrs.list(2);
  int64_t groups = attrs.number(5), per_group = w[0] / groups;
  Dims x_strides = contiguous_strides(x), w_strides = contiguous_strides(w);
  for_each(y, [&](int64_t y_at, std::span<const int64_t> at) {
    int64_t first_channel = at[1] / per_group * w[1];
    for_each(w.subspan(1), [&](int64_t w_at, std::span<const int64_t> k) {
      int64_t x_at = at[0] * x_strides[0] + (first_channel + k[0]) * x_strides[1];
      for (size_t d = 2; d < x.size(); ++d) {
        int64_t p = at[d] * stride[d - 2] - padding[d - 2] + k[d - 1] * dilation[d - 2];
        if (p < 0 || p >= x[d]) return;
        x_at += p * x_strides[d];
      }
      f(x_at, at[1] * w_strides[0] + w_at, y_at);
    });
  });
}

// A transposed convolution is the transpose of a plain one: x and y change places.
template <class F>
void for_each_product(const Attrs& attrs, std::span<const int64_t> x, std::span<const int64_t> w,
                      std::span<const int64_t> y, F f) {
  if (attrs.number(3))
    for_each_plain_product(attrs, y, w, x, [&](int64_t y_at, int64_t w_at, int64_t x_at) { f(x_at, w_at, y_at); });
  else
    for_each_plain_product(attrs, x, w, y, f);
}

}  // namespace

void interpret_matmul(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &a = *in[0], &b = *in[1];
  const Dims &s = a.type.shape, &t = b.type.shape;
  size_t r = s.size();
  const int64_t batch = r == 3 ? s[0] : Size(1), m = s[r - 2], k = s[r - 1], n = t[r - 1];
  dispatch(compute_type(a.type.dtype), [&]<class T>() {
    Products<T> sums(out[0]);
    for (int64_t z = 0; z < batch; ++z)
      for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j)
          for (int64_t l = 0; l < k; ++l) sums.add((z * m + i) * n + j, a, (z * m + i) * k + l, b, (z * k + l) * n + j);
  });
}

void interpret_int_mm(const Node&, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &a = *in[0], &b = *in[1];
  const int64_t m = a.type.shape[0], k = a.type.shape[1], n = b.type.shape[1];
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t sum = 0;
      for (int64_t l = 0; l < k; ++l) sum += static_cast<int64_t>(a.at(i * k + l) * b.at(l * n + j));
      out[0].set(i * n + j, static_cast<int32_t>(sum));
    }
}

void interpret_int4_mm(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &x = *in[0], &w = *in[1], &scales = *in[2];
  const int64_t group = node.attrs.number(0), block = node.attrs.number(1);
  const bool paired = node.attrs.number(2) != 0;
  const int64_t m = x.type.shape[0], k = x.type.shape[1], n = w.type.shape[0];
  const auto bits = [&](int64_t row, int64_t l) {
    const int64_t first = row / block * block;
    const bool apart = !paired && first + block <= n;
    const int64_t half = std::min(block, n - first) / 2, in_block = row - first;
    const int64_t at = first * k / 2 + l * half + (apart ? in_block % half : in_block / 2);
    const bool high = apart ? in_block >= half : in_block % 2 != 0;
    return static_cast<int>(w.at(at)) >> (high ? 4 : 0) & 15;
  };
  dispatch(compute_type(x.type.dtype), [&]<class T>() {
    for (int64_t i = 0; i < m; ++i)
      for (int64_t j = 0; j < n; ++j) {
        Accumulator<T> sum = 0;
        for (int64_t l = 0; l < k; ++l) {
          const int64_t scale = (l / group * n + j) * 2;
          const auto weight = static_cast<Accumulator<T>>(bits(j, l) - 8) * load<T>(scales, scale);
          sum += static_cast<Accumulator<T>>(load<T>(x, i * k + l)) * (weight + load<T>(scales, scale + 1));
        }
        store<T>(out[0], i * n + j, static_cast<T>(sum));
      }
  });
}

void interpret_convolution(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &x = *in[0], &w = *in[1];
  dispatch(compute_type(x.type.dtype), [&]<class T>() {
    Products<T> sums(out[0]);
    for_each_product(node.attrs, x.type.shape, w.type.shape, out[0].type.shape,
                     [&](int64_t i, int64_t k, int64_t o) { sums.add(o, x, i, w, k); });
  });
}

void interpret_convolution_input_grad(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &gy = *in[0], &w = *in[1];
  dispatch(compute_type(gy.type.dtype), [&]<class T>() {
    Products<T> sums(out[0]);
    for_each_product(node.attrs, out[0].type.shape, w.type.shape, gy.type.shape,
                     [&](int64_t i, int64_t k, int64_t o) { sums.add(i, gy, o, w, k); });
  });
}

void interpret_convolution_weight_grad(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &gy = *in[0], &x = *in[1];
  dispatch(compute_type(gy.type.dtype), [&]<class T>() {
    Products<T> sums(out[0]);
    for_each_product(node.attrs, x.type.shape, out[0].type.shape, gy.type.shape,
                     [&](int64_t i, int64_t k, int64_t o) { sums.add(k, gy, o, x, i); });
  });
}

}  // namespace lazuli::ir
