// Matrix products that every implementation should get right, with their result in float64.
#pragma once
#include <algorithm>
#include <string>
#include <vector>
#include "lowering/libraries/post_ops.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering::testing {

struct MatmulCase {
  std::string name;
  Layout a, b, out;
  std::vector<PostOp> ops{};
};

inline MatmulCase plain_case(std::string name, ir::DType t, int64_t m, int64_t n, int64_t k,
                             std::vector<PostOp> ops = {}) {
  return {std::move(name), layout(t, {m, k}), layout(t, {k, n}), layout(t, {m, n}), std::move(ops)};
}

inline std::vector<MatmulCase> size_cases(ir::DType t) {
  std::vector<MatmulCase> cases;
  for (auto [m, n, k] : {std::array{1, 1, 1},
                         {4, 4, 4},
                         {1, 67, 33},
                         {67, 1, 33},
                         {1, 1, 300},
                         {1, 64, 128},
                         {64, 1, 128},
                         {37, 41, 1},
                         {129, 65, 257},
                         {520, 40, 64},
                         {128, 256, 512},
                         {16, 16, 4096}})
    cases.push_back(plain_case("size", t, m, n, k));
  return cases;
}

inline std::vector<MatmulCase> order_cases(ir::DType t) {
  std::vector<MatmulCase> cases;
  const auto order = [](int transposed) { return transposed ? std::vector<size_t>{1, 0} : std::vector<size_t>{0, 1}; };
  for (auto [m, n, k] : {std::array{19, 21, 33}, {64, 32, 96}, {1, 24, 40}, {24, 1, 40}})
    for (int bits = 0; bits < 8; ++bits)
      cases.push_back({"order", layout(t, {m, k}, order(bits & 1)), layout(t, {k, n}, order(bits & 2)),
                       layout(t, {m, n}, order(bits & 4))});
  cases.push_back({"padded", layout(t, {19, 33}, {}, 7), layout(t, {33, 21}, {1, 0}, 3), layout(t, {19, 21}, {}, 5)});
  // A column of a matrix times another's row: neither is contiguous.
  MatmulCase column = plain_case("a column and a row", t, 1, 48, 32);
  column.a.strides = {1, 5}, column.b.strides = {64, 1};
  cases.push_back(column);
  MatmulCase dot = plain_case("dot of two columns", t, 1, 1, 100);
  dot.a.strides = {1, 3}, dot.b.strides = {7, 1};
  cases.push_back(dot);
  return cases;
}

inline std::vector<MatmulCase> batch_cases(ir::DType t) {
  const auto three = [&](std::string name, std::vector<size_t> a, std::vector<size_t> b, std::vector<size_t> out) {
    return MatmulCase{std::move(name), layout(t, {6, 17, 16}, a), layout(t, {6, 16, 18}, b),
                      layout(t, {6, 17, 18}, out)};
  };
  std::vector<MatmulCase> cases{
      three("batch", {}, {}, {}),
      three("batch, b transposed", {}, {0, 2, 1}, {}),
      three("batch, a transposed", {0, 2, 1}, {}, {}),
      three("batch inside", {1, 0, 2}, {1, 0, 2}, {1, 0, 2}),
      three("batch inside, b transposed", {1, 0, 2}, {2, 0, 1}, {1, 0, 2}),
      three("batch of columns", {}, {}, {0, 2, 1}),
      {"a shared", layout(t, {6, 17, 16}, {}, 0, {0}), layout(t, {6, 16, 18}), layout(t, {6, 17, 18})},
      {"b shared", layout(t, {6, 17, 16}), layout(t, {6, 16, 18}, {}, 0, {0}), layout(t, {6, 17, 18})},
      {"b shared, two batches", layout(t, {3, 2, 17, 16}), layout(t, {3, 2, 16, 18}, {}, 0, {0, 1}),
       layout(t, {3, 2, 17, 18})},
      {"a shared, into columns", layout(t, {6, 17, 16}, {}, 0, {0}), layout(t, {6, 16, 18}, {1, 0, 2}),
       layout(t, {6, 17, 18}, {1, 0, 2})},
      {"rows in batches, b shared", layout(t, {6, 1, 16}), layout(t, {6, 16, 18}, {}, 0, {0}), layout(t, {6, 1, 18})},
      {"vectors in batches", layout(t, {6, 1, 16}), layout(t, {6, 16, 1}), layout(t, {6, 1, 1})},
      // [batch, head, token, feature] as a permuted [batch, token, head, feature].
      {"scores",
       layout(t, {2, 3, 10, 16}, {0, 2, 1, 3}),
       layout(t, {2, 3, 16, 10}, {0, 3, 1, 2}),
       layout(t, {2, 3, 10, 10}),
       {{PostOp::Scale, {}, 0.25f}}},
      {"attended", layout(t, {2, 3, 10, 10}), layout(t, {2, 3, 10, 16}, {0, 2, 1, 3}),
       layout(t, {2, 3, 10, 16}, {0, 2, 1, 3})},
      {"three batches, none even", layout(t, {2, 3, 5, 9, 8}, {2, 0, 1, 3, 4}),
       layout(t, {2, 3, 5, 8, 7}, {1, 2, 0, 3, 4}), layout(t, {2, 3, 5, 9, 7})},
      {"one-element batches", layout(t, {1, 2, 1, 9, 8}), layout(t, {1, 2, 1, 8, 7}), layout(t, {1, 2, 1, 9, 7})},
      {"many small", layout(t, {70000, 2, 3}), layout(t, {70000, 3, 2}), layout(t, {70000, 2, 2})},
  };
  if (t == ir::DType::F64)
    for (MatmulCase& c : cases) c.ops.clear();
  return cases;
}

// Chains that a BLAS takes for bfloat16 and float16; for float32 too where there is no gelu.
inline std::vector<MatmulCase> epilogue_cases(ir::DType t) {
  std::vector<MatmulCase> cases;
  const auto add = [&](std::string name, int64_t m, int64_t n, int64_t k, std::vector<PostOp> ops) {
    const bool gelu = std::ranges::any_of(ops, [](const PostOp& op) { return op.kind == PostOp::GeluTanh; });
    if (!gelu || ir::is_reduced_floating(t)) cases.push_back(plain_case(std::move(name), t, m, n, k, std::move(ops)));
  };
  for (auto [m, n, k] : {std::array{33, 35, 19}, {64, 96, 128}, {1, 96, 64}, {96, 1, 64}}) {
    const PostOp bias{PostOp::Add, layout(t, {n})}, relu{PostOp::Relu}, gelu{PostOp::GeluTanh},
        half{PostOp::Scale, {}, 0.5f};
    const PostOp whole{PostOp::Add, layout(t, {m, n})}, padded{PostOp::Add, layout(t, {m, n}, {}, 8)};
    add("scale", m, n, k, {half});
    add("bias", m, n, k, {bias});
    add("relu", m, n, k, {relu});
    add("gelu", m, n, k, {gelu});
    add("bias, relu", m, n, k, {bias, relu});
    add("bias, gelu", m, n, k, {bias, gelu});
    add("scale, bias, relu", m, n, k, {half, bias, relu});
    add("add", m, n, k, {whole});
    add("add padded", m, n, k, {padded});
    add("scale, add, relu", m, n, k, {half, whole, relu});
    add("add, gelu", m, n, k, {whole, gelu});
  }
  const Layout a = layout(t, {4, 17, 16}), b = layout(t, {4, 16, 24}), out = layout(t, {4, 17, 24});
  cases.push_back({"batch, bias, relu", a, b, out, {{PostOp::Add, layout(t, {24})}, {PostOp::Relu}}});
  cases.push_back({"batch, add", a, b, out, {{PostOp::Add, layout(t, {4, 17, 24}, {1, 0, 2})}}});
  cases.push_back({"linear", a, layout(t, {4, 16, 24}, {2, 1}, 0, {0}), out, {{PostOp::Add, layout(t, {24})}}});
  cases.back().b.strides = {0, 1, 16};
  cases.push_back({"columns, add",
                   layout(t, {19, 33}),
                   layout(t, {33, 21}),
                   layout(t, {19, 21}, {1, 0}),
                   {{PostOp::Add, layout(t, {19, 21}, {1, 0}, 3)}}});
  return cases;
}

// The elements of a tensor in row-major order.
inline std::vector<double> values(const Tensor& t) {
  std::vector<double> v;
  t.each([&](const ir::Dims& at) { v.push_back(t.get(at)); });
  return v;
}

// The operands of a case, random.
struct MatmulOperands {
  explicit MatmulOperands(const MatmulCase& c, uint32_t seed = 1)
      : a(Tensor::random(c.a, seed)), b(Tensor::random(c.b, seed + 1)), out(c.out) {
    for (const PostOp& op : c.ops)
      if (has_operand(op)) others.push_back(Tensor::random(op.operand, seed + 2 + others.size()));
  }
  Tensor a, b, out;
  std::vector<Tensor> others;
};

class MatmulReference {
 public:
  MatmulReference(const MatmulCase& c, const MatmulOperands& x)
      : case_(c), others_(x.others), a_(values(x.a)), b_(values(x.b)) {}

  double operator()(const ir::Dims& at) const {
    const size_t rank = at.size();
    const int64_t m = case_.a.shape[rank - 2], k = case_.a.shape[rank - 1], n = case_.b.shape[rank - 1];
    int64_t batch = 0;
    for (size_t d = 0; d + 2 < rank; ++d) batch = batch * case_.out.shape[d] + at[d];
    double sum = 0;
    for (int64_t i = 0; i < k; ++i)
      sum += a_[(batch * m + at[rank - 2]) * k + i] * b_[(batch * k + i) * n + at[rank - 1]];
    size_t next = 0;
    for (const PostOp& op : case_.ops) {
      double y = 0;
      if (has_operand(op)) {
        const Tensor& t = others_[next++];
        ir::Dims index(t.layout.shape.size(), 0);
        for (size_t d = 0; d < index.size(); ++d)
          index[d] = t.layout.shape[d] == 1 ? ir::Size(0) : at[d + rank - index.size()];
        y = t.get(index);
      }
      sum = after_post_op(op, sum, y);
    }
    return sum;
  }

 private:
  const MatmulCase& case_;
  const std::vector<Tensor>& others_;
  std::vector<double> a_, b_;
};

}  // namespace lazuli::lowering::testing
