// What a library refuses to read or write where it lies is copied, or stays out of its epilogue: a plan is always made.
#include <algorithm>
#include <random>
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "jit/device.h"
#include "jit/devices/cuda/launch.h"
#include "lowering/graph/align_products.h"
#include "lowering/plan/plan.h"
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::DType;
using ir::Op;
using ir::Value;

// A product of random windows on memory, and what may follow it.
class RandomProduct {
 public:
  explicit RandomProduct(uint32_t seed) : random_(seed), type_(below(2) ? DType::F32 : DType::BF16) {}

  ir::Graph make() {
    const int64_t m = size(), k = size(), n = size();
    const ir::Dims batch = below(3) ? ir::Dims{} : ir::Dims{size()};
    const auto matrix = [&](int64_t rows, int64_t columns) {
      ir::Dims shape = batch;
      shape.push_back(rows);
      shape.push_back(columns);
      return window(shape);
    };
    Value v = model_.emit(Op::matmul, {matrix(m, k), matrix(k, n)});
    for (int i = below(4); i > 0; --i) v = followed(v);
    model_.graph.outputs = {below(3) ? v : model_.permute(v, reversed(model_.shape(v).size()))};
    if (below(3) == 0) model_.graph.outputs.push_back(model_.neg(model_.graph.outputs[0]));
    return std::move(model_.graph);
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  int64_t size() { return std::array{1, 2, 3, 4, 8}[below(5)]; }

  static ir::Dims reversed(size_t rank) {
    ir::Dims order;
    while (rank > 0) order.push_back(static_cast<int64_t>(--rank));
    return order;
  }

  // An input of the shape, or a view of a larger one.
  Value window(const ir::Dims& shape) {
    ir::Dims from = shape;
    const int d = below(static_cast<int>(shape.size()));
    switch (below(6)) {
      case 0:
        std::ranges::reverse(from);
        return model_.permute(window(from), reversed(from.size()));
      case 1: {
        const int64_t start = below(2), step = 1 + below(2);
        from[d] = start + shape[d] * step;
        return slice(window(from), d, start, shape[d], step);
      }
      case 2: {  // as x[..., i, ...]
        if (shape.size() >= 4) return model_.input(type_, shape);
        from.insert(d, 3);
        return model_.reshape(slice(window(from), d, below(3), 1, 1), shape);
      }
      case 3:
        from[d] = 1;
        return model_.broadcast(window(from), shape);
      default:
        return model_.input(type_, shape);
    }
  }
  Value slice(Value x, int d, int64_t start, int64_t size, int64_t step) {
    ir::Dims sizes = model_.shape(x), starts(sizes.size(), 0), steps(sizes.size(), 1);
    sizes[d] = size, starts[d] = start, steps[d] = step;
    return model_.emit(Op::slice, {x}, ir::Attrs().add(starts).add(sizes).add(steps));
  }

  // An op that an epilogue may take.
  Value followed(Value v) {
    const ir::Dims shape = model_.shape(v);
    switch (below(5)) {
      case 0:
        return model_.emit(Op::relu, {v});
      case 1:
        return model_.mul(v, 0.5);
      case 2:
        return model_.add(v, window({shape.back()}));
      case 3:
        return model_.add(v, window(shape));
      default: {
        ir::Dims flat{1, shape.back()};
        for (size_t i = 0; i + 1 < shape.size(); ++i) flat[0] *= shape[i];
        return model_.reshape(v, flat);
      }
    }
  }

  std::mt19937 random_;
  DType type_;
  Model model_;
};

TEST(LibraryOperands, EveryPlanIsMade) {
  for (uint32_t seed = 0; seed < 3000; ++seed)
    for (const bool gpu : {false, true}) {
      const lowering::PlanOptions options = gpu ? jit::cuda::plan_options({}, {}) : jit::cpu_device().plan_options({});
      const ir::Graph made = ir::run_passes(RandomProduct(seed).make(), ir::all_passes(), {});
      const ir::Graph graph = lowering::align_products(made, *options.libraries);
      try {
        lowering::make_plan(graph, options);
      } catch (const std::exception& e) {
        FAIL() << e.what() << (gpu ? " on a GPU, seed " : ", seed ") << seed << '\n' << ir::print(graph);
      }
    }
}

}  // namespace
}  // namespace lazuli::testing
