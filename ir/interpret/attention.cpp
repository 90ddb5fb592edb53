// Attention, as its formula says it: in float64, one row of scores at a time.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include "ir/interpret/number.h"
#include "ir/interpret/rules.h"

namespace lazuli::ir {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

class Problem {
 public:
  const int64_t batch, queries, heads, depth, keys, groups, width;
  Problem(const Attrs& attrs, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor* mask)
      : batch(q.type.shape[0]),
        queries(q.type.shape[1]),
        heads(q.type.shape[2]),
        depth(q.type.shape[3]),
        keys(k.type.shape[1]),
        groups(k.type.shape[2]),
        width(v.type.shape[3]),
        q_(q),
        k_(k),
        v_(v),
        mask_(mask),
        scale_(std::bit_cast<double>(attrs.number(0))),
        causal_(attrs.number(1) != 0) {}

  // Positions in operands of [batch, rows, heads, columns], of the first column.
  int64_t at_query(int64_t b, int64_t i, int64_t h, int64_t columns) const {
    return ((b * queries + i) * heads + h) * columns;
  }
  int64_t at_key(int64_t b, int64_t t, int64_t h, int64_t columns) const {
    return ((b * keys + t) * groups + h / (heads / groups)) * columns;
  }

  int64_t at_statistics(int64_t b, int64_t i, int64_t h) const { return 2 * ((b * heads + h) * queries + i); }

  // The scores of one query, -inf where it does not meet a key.
  std::vector<double> scores(int64_t b, int64_t i, int64_t h) const {
    std::vector<double> s(static_cast<size_t>(keys), -kInfinity);
    for (int64_t t = 0; t < (causal_ ? std::min(keys, i + 1) : keys); ++t) {
      double sum = 0;
      for (int64_t d = 0; d < depth; ++d)
        sum += q_.at(at_query(b, i, h, depth) + d) * k_.at(at_key(b, t, h, depth) + d);
      s[static_cast<size_t>(t)] = sum * scale_ + (mask_ ? masked(b, h, i, t) : 0);
    }
    return s;
  }
  double scale() const { return scale_; }

  // Calls f(batch, query, head).
  template <class F>
  void for_each_row(F f) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t i = 0; i < queries; ++i)
        for (int64_t h = 0; h < heads; ++h) f(b, i, h);
  }

 private:
  double masked(int64_t b, int64_t h, int64_t i, int64_t t) const {
    const int64_t at[] = {b, h, i, t};
    int64_t position = 0;
    for (size_t d = 0; d < 4; ++d) position = position * mask_->type.shape[d] + (mask_->type.shape[d] == 1 ? 0 : at[d]);
    return mask_->at(position);
  }

  const Tensor &q_, &k_, &v_;
  const Tensor* mask_;
  const double scale_;
  const bool causal_;
};

// A tensor's cotangent, rounded when it is complete.
class Sums {
 public:
  explicit Sums(Tensor& to) : to_(to), sums_(static_cast<size_t>(to.type.numel())) {}
  double& operator[](int64_t i) { return sums_[static_cast<size_t>(i)]; }
  ~Sums() {
    for (size_t i = 0; i < sums_.size(); ++i) to_.set(static_cast<int64_t>(i), sums_[i]);
  }

 private:
  Tensor& to_;
  std::vector<double> sums_;
};

}  // namespace

void interpret_attention(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Problem p(node.attrs, *in[0], *in[1], *in[2], in[3]);
  Sums y(out[0]);
  p.for_each_row([&](int64_t b, int64_t i, int64_t h) {
    const std::vector<double> scores = p.scores(b, i, h);
    double largest = -kInfinity, sum = 0;
    for (double s : scores) largest = std::max(largest, s);
    const double shift = largest == -kInfinity ? 0 : largest;
    for (double s : scores) sum += std::exp(s - shift);
    out[1].set(p.at_statistics(b, i, h), shift);
    out[1].set(p.at_statistics(b, i, h) + 1, sum == 0 ? kInfinity : std::log(sum));
    for (int64_t t = 0; t < p.keys && sum != 0; ++t)
      for (int64_t e = 0; e < p.width; ++e)
        y[p.at_query(b, i, h, p.width) + e] +=
            std::exp(scores[static_cast<size_t>(t)] - shift) / sum * in[2]->at(p.at_key(b, t, h, p.width) + e);
  });
}

void interpret_attention_backward(const Node& node, std::span<const Tensor* const> in, std::span<Tensor> out) {
  const Tensor &gy = *in[0], &q = *in[1], &k = *in[2], &v = *in[3], &y = *in[4];
  const Problem p(node.attrs, q, k, v, in[6]);
  Sums gq(out[0]), gk(out[1]), gv(out[2]);
  p.for_each_row([&](int64_t b, int64_t i, int64_t h) {
    const std::vector<double> scores = p.scores(b, i, h);
    const double largest = in[5]->at(p.at_statistics(b, i, h)), log = in[5]->at(p.at_statistics(b, i, h) + 1);
    if (log == kInfinity) return;
    const int64_t of_y = p.at_query(b, i, h, p.width), of_q = p.at_query(b, i, h, p.depth);
    double delta = 0;
    for (int64_t e = 0; e < p.width; ++e) delta += gy.at(of_y + e) * y.at(of_y + e);
    for (int64_t t = 0; t < p.keys; ++t) {
      if (scores[static_cast<size_t>(t)] == -kInfinity) continue;
      const double probability = std::exp(scores[static_cast<size_t>(t)] - largest - log);
      const int64_t of_k = p.at_key(b, t, h, p.depth), of_v = p.at_key(b, t, h, p.width);
      double gradient = 0;  // of the probability
      for (int64_t e = 0; e < p.width; ++e) {
        gradient += gy.at(of_y + e) * v.at(of_v + e);
        gv[of_v + e] += probability * gy.at(of_y + e);
      }
      const double of_score = probability * (gradient - delta) * p.scale();
      for (int64_t d = 0; d < p.depth; ++d) {
        gq[of_q + d] += of_score * k.at(of_k + d);
        gk[of_k + d] += of_score * q.at(of_q + d);
      }
    }
  });
}

}  // namespace lazuli::ir
