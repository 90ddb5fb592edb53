// Matrix products, whoever serves them, in every layout and type.
#include "lowering/libraries/onednn.h"
#include "tests/lowering/products.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using testing::expect_close;
using testing::layout;
using testing::Tensor;

std::unique_ptr<LibraryCall> make(const Layout& a, const Layout& b, const Layout& out,
                                  std::span<const PostOp> post_ops) {
  return make_matmul(a, b, out, post_ops);
}

void check(const Layout& a, const Layout& b, const Layout& out, std::vector<PostOp> ops = {}) {
  testing::check_product(make, a, b, out, std::move(ops));
}

void check(DType t, int64_t m, int64_t n, int64_t k, std::vector<PostOp> ops = {}) {
  check(layout(t, {m, k}), layout(t, {k, n}), layout(t, {m, n}), std::move(ops));
}

const std::vector<DType> kFloating{DType::F32, DType::BF16, DType::F16, DType::F64};

TEST(LibrariesMatmul, EverySizeClass) {
  for (DType t : kFloating)
    for (auto [m, n, k] : {std::array{1, 1, 1},
                           {4, 4, 4},
                           {1, 67, 33},
                           {67, 1, 33},
                           {37, 41, 1},
                           {129, 65, 257},
                           {520, 40, 64},
                           {600, 33, 300}})
      check(t, m, n, k);
}

TEST(LibrariesMatmul, FewRowsTimesALargeMatrix) {
  for (DType t : kFloating)
    for (int64_t m : {1, 2, 4, 5}) {
      const Layout b = layout(t, {301, 331}, {1, 0}, 2);
      check(layout(t, {m, 301}), b, layout(t, {m, 331}), {{PostOp::Add, layout(t, {331})}, {PostOp::Relu}});
      check(layout(t, {m, 301}, {1, 0}), b, layout(t, {m, 331}, {1, 0}));
      check(layout(t, {331, 301}), layout(t, {301, m}), layout(t, {331, m}), {{PostOp::Mul, layout(t, {331, 1})}});
    }
}

TEST(LibrariesMatmul, Integers) {
  for (DType t : {DType::U8, DType::I8, DType::I16, DType::I32, DType::I64}) {
    check(t, 7, 9, 3);
    check(t, 100, 200, 2);
  }
}

TEST(LibrariesMatmul, IntegersWrapAsTheirTypeDoes) { testing::check_wrapping(make, 3, 2, 300); }

TEST(LibrariesMatmul, EmptyInnerDimensionGivesPostOpsOfZero) {
  for (DType t : kFloating) check(t, 3, 5, 0, {{PostOp::Add, layout(t, {5})}, {PostOp::Sigmoid}});
  check(DType::I64, 3, 5, 0);
}

TEST(LibrariesMatmul, EmptyResult) {
  for (DType t : kFloating) {
    check(t, 0, 5, 3, {{PostOp::Add, layout(t, {5})}});
    check(t, 4, 0, 3);
    check(layout(t, {0, 4, 3}), layout(t, {0, 3, 5}), layout(t, {0, 4, 5}));
  }
}

TEST(LibrariesMatmul, AnyOrderOfDimensions) {
  for (DType t : kFloating)
    for (bool ta : {false, true})
      for (bool tb : {false, true})
        for (bool to : {false, true}) {
          const auto order = [](bool transposed) {
            return transposed ? std::vector<size_t>{1, 0} : std::vector<size_t>{0, 1};
          };
          check(layout(t, {19, 33}, order(ta)), layout(t, {33, 21}, order(tb)), layout(t, {19, 21}, order(to)),
                {{PostOp::Add, layout(t, {21})}});
        }
}

TEST(LibrariesMatmul, SlicedAndStepped) {
  for (DType t : kFloating) {
    check(layout(t, {19, 33}, {}, 7), layout(t, {33, 21}, {1, 0}, 3), layout(t, {19, 21}, {}, 5));
    Layout a = layout(t, {19, 33}), b = layout(t, {33, 21}), out = layout(t, {19, 21});
    for (Layout* l : {&a, &b, &out})
      for (ir::Size& s : l->strides) s *= 3;  // every third element: contiguous along nothing
    check(a, b, out, {{PostOp::Add, layout(t, {19, 1})}});
  }
}

TEST(LibrariesMatmul, ExpandedOperands) {
  for (DType t : kFloating) {
    check(layout(t, {19, 33}, {}, 0, {0, 1}), layout(t, {33, 21}), layout(t, {19, 21}));
    check(layout(t, {19, 33}, {}, 0, {0}), layout(t, {33, 21}, {}, 0, {1}), layout(t, {19, 21}));
  }
}

TEST(LibrariesMatmul, OverlappingWindowsAsRows) {
  for (DType t : kFloating) {
    Layout a = layout(t, {19, 33});
    a.strides[0] = 2;  // as_strided: rows share elements
    check(a, layout(t, {33, 21}), layout(t, {19, 21}));
  }
}

TEST(LibrariesMatmul, Batches) {
  for (DType t : kFloating) {
    check(layout(t, {6, 17, 16}), layout(t, {6, 16, 18}), layout(t, {6, 17, 18}), {{PostOp::Scale, {}, 0.125f}});
    check(layout(t, {6, 17, 16}), layout(t, {6, 16, 18}, {0, 2, 1}), layout(t, {6, 17, 18}));
    check(layout(t, {6, 17, 16}, {}, 0, {0}), layout(t, {6, 16, 18}), layout(t, {6, 17, 18}));
    check(layout(t, {6, 17, 16}), layout(t, {6, 16, 18}, {}, 0, {0}), layout(t, {6, 17, 18}));
    check(layout(t, {6, 17, 16}, {1, 0, 2}), layout(t, {6, 16, 18}, {2, 0, 1}), layout(t, {6, 17, 18}, {1, 0, 2}));
  }
}

TEST(LibrariesMatmul, AttentionHeadsReadInPlace) {
  // [batch, head, token, feature] as a permuted [batch, token, head, feature].
  for (DType t : kFloating) {
    const Layout q = layout(t, {2, 3, 10, 16}, {0, 2, 1, 3}), kt = layout(t, {2, 3, 16, 10}, {0, 3, 1, 2});
    check(q, kt, layout(t, {2, 3, 10, 10}), {{PostOp::Scale, {}, 0.25f}, {PostOp::Add, layout(t, {2, 1, 1, 10})}});
    check(layout(t, {2, 3, 10, 10}), q, layout(t, {2, 3, 10, 16}, {0, 2, 1, 3}));
  }
}

TEST(LibrariesMatmul, EveryPostOp) {
  for (DType t : kFloating) {
    const int64_t m = 21, n = 35, k = 19;
    for (auto kind : {PostOp::Relu, PostOp::GeluErf, PostOp::GeluTanh, PostOp::Sigmoid, PostOp::Tanh, PostOp::Silu}) {
      check(t, m, n, k, {{kind}});
      check(t, m, n, k, {{PostOp::Add, layout(t, {n})}, {kind}});
    }
    for (auto kind : {PostOp::Add, PostOp::Mul})
      for (const Layout& operand :
           {layout(t, {}), layout(t, {n}), layout(t, {m, 1}), layout(t, {m, n}), layout(t, {1, n}),
            layout(t, {m, n}, {1, 0}), layout(t, {m, n}, {}, 3), layout(DType::F32, {n})})
        check(t, m, n, k, {{kind, operand}, {PostOp::Scale, {}, 0.5f}});
  }
}

TEST(LibrariesMatmul, PostOpsRunInOrder) {
  for (DType t : kFloating)
    check(t, 8, 40, 16,
          {{PostOp::Add, layout(t, {40})},
           {PostOp::GeluErf},
           {PostOp::Mul, layout(t, {8, 40})},
           {PostOp::Add, layout(t, {8, 40})},
           {PostOp::Relu}});
}

TEST(LibrariesMatmul, ReducedOperandsWithFloatResult) {
  check(layout(DType::BF16, {33, 64}), layout(DType::BF16, {64, 48}), layout(DType::F32, {33, 48}));
}

TEST(LibrariesMatmul, InfinityAndNanPropagate) {
  for (DType t : {DType::F32, DType::BF16, DType::F64}) {
    Tensor a = Tensor::random(layout(t, {5, 8}), 1), b = Tensor::random(layout(t, {8, 6}), 2), out(layout(t, {5, 6}));
    a.set({1, 2}, NAN);
    a.set({3, 4}, INFINITY);
    testing::run(*make_matmul(a.layout, b.layout, out.layout), {&a, &b}, {&out});
    EXPECT_TRUE(std::isnan(out.get({1, 0})));
    EXPECT_TRUE(std::isinf(out.get({3, 0})));
    EXPECT_TRUE(std::isfinite(out.get({0, 0})));
  }
}

TEST(LibrariesMatmul, PackedOperandGivesTheSameProduct) {
  for (DType t : {DType::F32, DType::BF16})
    for (bool tb : {false, true}) {
      const Layout la = layout(t, {64, 70}),
                   lb = layout(t, {70, 450}, tb ? std::vector<size_t>{1, 0} : std::vector<size_t>{});
      const std::vector<PostOp> ops{{PostOp::Add, layout(t, {450})}};
      PackedCall packed = make_packed_matmul(la, lb, layout(t, {64, 450}), ops);
      if (!packed.pack) GTEST_SKIP() << "this machine has no packed " << ir::name(t) << " product";
      Tensor a = Tensor::random(la, 1), b = Tensor::random(lb, 2), bias = Tensor::random(ops[0].operand, 3);
      Tensor bytes(layout(DType::U8, {static_cast<int64_t>(packed.bytes)})), out(layout(t, {64, 450}));
      testing::run(*packed.pack, {&b}, {&bytes});
      testing::run(*packed.call, {&a, &bytes, &bias}, {&out});
      std::vector<Tensor> operands{bias};
      expect_close(
          out, [&](const ir::Dims& at) { return testing::product_at(a, b, ops, operands, at, {64, 450}); }, 9,
          packed.call->describe());
    }
}

// A tall matrix of three columns, which the library pads to a block of them.
TEST(LibrariesMatmul, AnOperandIsNotPackedIntoMostlyPadding) {
  for (int64_t rows : {1000, 10000, 100000}) {
    const PackedCall packed = make_packed_matmul(layout(DType::F32, {1, rows}), layout(DType::F32, {rows, 3}),
                                                 layout(DType::F32, {1, 3}), {});
    EXPECT_LE(packed.bytes, std::max<size_t>(64 << 10, 2 * 12 * static_cast<size_t>(rows)));
  }
}

TEST(LibrariesMatmul, RefusesOperandsThatDoNotFit) {
  EXPECT_THROW(make_matmul(layout(DType::F32, {2, 3}), layout(DType::F32, {4, 5}), layout(DType::F32, {2, 5})),
               TypeError);
  EXPECT_THROW(make_matmul(layout(DType::F32, {2, 3}), layout(DType::F64, {3, 5}), layout(DType::F32, {2, 5})),
               TypeError);
  EXPECT_THROW(make_matmul(layout(DType::Bool, {2, 3}), layout(DType::Bool, {3, 5}), layout(DType::Bool, {2, 5})),
               TypeError);
}

}  // namespace
}  // namespace lazuli::lowering
