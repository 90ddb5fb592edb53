// Writes at run-time positions against one element at a time.
#include <omp.h>
#include "lowering/libraries/indexing.h"
#include "tests/lowering/libraries_support.h"

namespace lazuli::lowering {
namespace {

using ir::Dims;
using ir::DType;
using testing::layout;
using testing::Tensor;

const std::vector<DType> kTypes{DType::Bool, DType::U8,  DType::I8,   DType::I16, DType::I32,
                                DType::I64,  DType::F16, DType::BF16, DType::F32, DType::F64};

Tensor small_integers(Layout l, uint32_t seed, int64_t end) {
  Tensor t(std::move(l));
  std::mt19937 generator(seed);
  t.each([&](const Dims& at) { t.set(at, static_cast<double>(generator() % end)); });
  return t;
}

// Small integers, so that sums are exact in every type.
void check_scatter(DType t, ScatterMode mode, const Layout& base_layout, const Layout& index_layout, Layout src_layout,
                   int64_t dim) {
  Tensor base = small_integers(base_layout, 1, 2), src = small_integers(src_layout, 2, 2), out(base_layout);
  Tensor index = small_integers(index_layout, 3, base_layout.shape[dim]);
  Tensor expected(layout(DType::F64, base_layout.shape));
  expected.each([&](const Dims& at) { expected.set(at, base.get(at)); });
  index.each([&](const Dims& at) {
    Dims to = at;
    to[dim] = static_cast<int64_t>(index.get(at));
    const double sum = mode == ScatterMode::Add ? expected.get(to) + src.get(at) : src.get(at);
    expected.set(to, t == DType::Bool ? sum != 0 : sum);
  });
  testing::run(*make_scatter(base.layout, index.layout, src.layout, out.layout, dim, mode), {&base, &index, &src},
               {&out});
  out.each([&](const Dims& at) { EXPECT_EQ(out.get(at), expected.get(at)); });
}

TEST(LibrariesIndexing, ScatterAlongEveryDimension) {
  for (DType t : kTypes)
    for (auto mode : {ScatterMode::Assign, ScatterMode::Add})
      for (int64_t dim : {0, 1, 2}) {
        check_scatter(t, mode, layout(t, {5, 6, 7}), layout(DType::I64, {5, 6, 7}), layout(t, {5, 6, 7}), dim);
        check_scatter(t, mode, layout(t, {5, 6, 7}, {2, 0, 1}), layout(DType::I32, {3, 4, 5}, {1, 2, 0}),
                      layout(t, {4, 6, 7}), dim);
      }
}

TEST(LibrariesIndexing, ScatterLargeEnoughForThreads) {
  for (auto mode : {ScatterMode::Assign, ScatterMode::Add}) {
    check_scatter(DType::F32, mode, layout(DType::F32, {3, 40, 300}), layout(DType::I64, {3, 40, 300}),
                  layout(DType::F32, {3, 40, 300}), 1);
    check_scatter(DType::F32, mode, layout(DType::F32, {200}), layout(DType::I64, {20000}), layout(DType::F32, {20000}),
                  0);
    check_scatter(DType::F32, mode, layout(DType::F32, {200, 1}), layout(DType::I64, {20000, 1}),
                  layout(DType::F32, {20000, 1}), 0);
  }
}

TEST(LibrariesIndexing, ScatterOfNothing) {
  check_scatter(DType::F32, ScatterMode::Add, layout(DType::F32, {3, 4}), layout(DType::I64, {0, 4}),
                layout(DType::F32, {3, 4}), 0);
  check_scatter(DType::F32, ScatterMode::Add, layout(DType::F32, {3, 4}), layout(DType::I64, {3, 0}),
                layout(DType::F32, {3, 4}), 0);
}

void check_index_add(DType t, const Dims& base_shape, const Dims& index_shape, int64_t dim, bool flat,
                     std::vector<size_t> order = {}) {
  Dims src_shape;
  for (size_t d = 0; d < base_shape.size(); ++d) {
    if (static_cast<int64_t>(d) != dim)
      src_shape.push_back(base_shape[d]);
    else if (flat)
      src_shape.push_back(ir::product(index_shape));
    else
      src_shape.append(index_shape);
  }
  Tensor base = small_integers(layout(t, base_shape, order), 1, 2), out(base.layout);
  Tensor index = small_integers(layout(DType::I64, index_shape), 2, base_shape[dim]),
         src = small_integers(layout(t, src_shape), 3, 2);
  Tensor expected(layout(DType::F64, base_shape));
  expected.each([&](const Dims& at) { expected.set(at, base.get(at)); });
  src.each([&](const Dims& at) {
    const size_t wide = flat ? 1 : index_shape.size();
    Dims in(std::span(at.data() + dim, wide)), to;
    if (flat) {
      int64_t rest = at[dim];
      in = Dims(index_shape.size(), 0);
      for (size_t d = index_shape.size(); d-- > 0; rest /= index_shape[d]) in[d] = rest % index_shape[d];
    }
    to.append(std::span(at.data(), dim));
    to.push_back(static_cast<int64_t>(index.get(in)));
    to.append(std::span(at.data() + dim + wide, at.size() - dim - wide));
    const double sum = expected.get(to) + src.get(at);
    expected.set(to, t == DType::Bool ? sum != 0 : sum);
  });
  testing::run(*make_index_add(base.layout, index.layout, src.layout, out.layout, dim), {&base, &index, &src}, {&out});
  out.each([&](const Dims& at) { EXPECT_EQ(out.get(at), expected.get(at)); });
}

TEST(LibrariesIndexing, IndexAddAlongEveryDimension) {
  for (DType t : kTypes)
    for (int64_t dim : {0, 1, 2}) {
      check_index_add(t, {5, 6, 7}, {9}, dim, false);
      check_index_add(t, {5, 6, 7}, {9}, dim, false, {2, 1, 0});
    }
}

TEST(LibrariesIndexing, IndexAddWithIndexOfAnyRank) {
  for (bool flat : {false, true}) {
    check_index_add(DType::F32, {11, 70}, {3, 20}, 0, flat);
    check_index_add(DType::F32, {4, 11, 8}, {2, 3, 2}, 1, flat);
    check_index_add(DType::F32, {4, 11}, {}, 1, flat);
    check_index_add(DType::F32, {4, 11}, {0, 3}, 1, flat);
    check_index_add(DType::F32, {11}, {1, 3, 1, 4}, 0, flat);
    check_index_add(DType::F32, {4, 11}, {1, 1}, 1, flat);
  }
}

TEST(LibrariesIndexing, IndexAddLargeEnoughForThreads) {
  check_index_add(DType::F32, {50, 200}, {8, 32}, 0, false);
  check_index_add(DType::F32, {50}, {20000}, 0, false);
  check_index_add(DType::F32, {50}, {400, 1, 50}, 0, false);
  check_index_add(DType::I64, {3, 50}, {5000}, 1, false);
}

TEST(LibrariesIndexing, BaseMayBeAFillOrTheResultItself) {
  Tensor zero = small_integers(layout(DType::F32, {6, 32}, {}, 0, {0, 1}), 1, 1),
         index = small_integers(layout(DType::I64, {40}), 2, 6);
  Tensor src = small_integers(layout(DType::F32, {40, 32}), 3, 4), filled(layout(DType::F32, {6, 32})),
         again(layout(DType::F32, {6, 32}));
  testing::run(*make_index_add(zero.layout, index.layout, src.layout, filled.layout, 0), {&zero, &index, &src},
               {&filled});
  again.each([&](const Dims& at) { again.set(at, 0); });
  testing::run(*make_index_add(again.layout, index.layout, src.layout, again.layout, 0), {&again, &index, &src},
               {&again});
  double total = 0;
  filled.each([&](const Dims& at) {
    EXPECT_EQ(filled.get(at), again.get(at));
    total += filled.get(at);
  });
  double given = 0;
  src.each([&](const Dims& at) { given += src.get(at); });
  EXPECT_EQ(total, given);
}

TEST(LibrariesIndexing, SumsDoNotDependOnTheNumberOfThreads) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP()
      << "the thread sanitizer does not see libgomp's barriers: what follows a parallel loop seems to race with it";
#endif
  Tensor base = Tensor::random(layout(DType::F32, {17, 40}), 1),
         src = Tensor::random(layout(DType::F32, {4000, 40}), 2, -1e3, 1e3);
  Tensor index = small_integers(layout(DType::I64, {4000}), 3, 17), one(base.layout), many(base.layout);
  const int before = omp_get_max_threads();
  auto call = make_index_add(base.layout, index.layout, src.layout, one.layout, 0);
  omp_set_num_threads(1);
  testing::run(*call, {&base, &index, &src}, {&one});
  omp_set_num_threads(4);
  testing::run(*call, {&base, &index, &src}, {&many});
  omp_set_num_threads(before);
  one.each([&](const Dims& at) { EXPECT_EQ(one.get(at), many.get(at)); });
}

TEST(LibrariesIndexing, IndexOutOfBoundsThrowsBeforeWriting) {
  for (double bad : {-1.0, 5.0}) {
    Tensor base = small_integers(layout(DType::F32, {5, 3}), 1, 9),
           index = small_integers(layout(DType::I64, {4, 3}), 2, 5);
    Tensor src = small_integers(layout(DType::F32, {4, 3}), 3, 9),
           out = small_integers(layout(DType::F32, {5, 3}), 4, 1);
    index.set({3, 1}, bad);
    try {
      testing::run(*make_scatter(base.layout, index.layout, src.layout, out.layout, 0, ScatterMode::Assign),
                   {&base, &index, &src}, {&out});
      FAIL() << "no exception";
    } catch (const std::runtime_error& e) {
      EXPECT_EQ(std::string(e.what()),
                "index " + std::to_string(static_cast<int>(bad)) + " is out of bounds for dimension 0 with size 5");
    }
    out.each([&](const Dims& at) { EXPECT_EQ(out.get(at), 0); });
  }
}

TEST(LibrariesIndexing, TheFirstOfManyOutOfBoundsIsNamed) {
  Tensor base = small_integers(layout(DType::F32, {500, 3}), 1, 9),
         index = small_integers(layout(DType::I64, {30000, 3}), 2, 500),
         src = small_integers(layout(DType::F32, {30000, 3}), 3, 9), out = small_integers(base.layout, 4, 1);
  for (int64_t at : {29000, 17000, 10001}) index.set({at, 2}, static_cast<double>(500 + at));
  try {
    testing::run(*make_scatter(base.layout, index.layout, src.layout, out.layout, 0, ScatterMode::Add),
                 {&base, &index, &src}, {&out});
    FAIL() << "no exception";
  } catch (const std::runtime_error& e) {
    EXPECT_STREQ(e.what(), "index 10501 is out of bounds for dimension 0 with size 500");
  }
}

}  // namespace
}  // namespace lazuli::lowering
