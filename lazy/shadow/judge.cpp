#include "lazy/shadow/judge.h"

#include <cmath>
#include <ATen/ATen.h>
#include "lazy/shadow/reference.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;
using Numbers = Reference::Numbers;

// Noisy runs: until nothing is left that they do not explain.
constexpr int kRuns[] = {3, 6, 12, 24};
// How often what some runs show, and eager's own error, may be exceeded.
constexpr double kTimesSpread = 8, kTimesEager = 4;

double largest(ir::DType t) {
  switch (t) {
    case ir::DType::F16:
      return 65504;
    case ir::DType::BF16:
    case ir::DType::F32:
      return 3.38e38;
    default:
      return 1.7e308;
  }
}

bool is_compared(ir::DType t) { return t != ir::DType::Opaque; }
bool is_complex(ir::DType t) { return t == ir::DType::C32 || t == ir::DType::C64 || t == ir::DType::C128; }

// Floating and not: elements that may be different for reasons other than the last digit.
Tensor doubtful(const Tensor& ours, const Tensor& eager, ir::DType t) {
  if (!ir::is_floating(t)) return ours.ne(eager);
  const Tensor o = ours.to(at::kDouble), e = eager.to(at::kDouble);
  const Tensor same = o.eq(e) | (o.isnan() & e.isnan()) | (o - e).abs().le(e.abs() * (2 * spacing(t).relative));
  return same.logical_not();
}

// What is known of one output.
struct Output {
  ir::DType type;
  Tensor ours, eager, exact, plain;  // `plain`: exact, by decompositions, as the noisy runs are
  Tensor spread;                     // floating: how far noisy runs were from `plain`; else: whether they differ

  void add(const Tensor& noisy) {
    if (!ir::is_floating(type)) {
      const Tensor differs = noisy.ne(plain) | exact.ne(plain) | eager.ne(plain);
      spread = spread.defined() ? spread | differs : differs;
      return;
    }
    Tensor by = (noisy - plain).abs();
    // A number here and none there: anything is explained. Infinities agree, or not.
    by = at::where(noisy.isnan() & plain.isnan(), 0.0, by);
    by = at::where(noisy.eq(plain), 0.0, by);
    by = at::where(by.isnan(), INFINITY, by);
    spread = spread.defined() ? at::maximum(spread, by) : by;
  }
  Tensor bound() const {
    const Spacing s = spacing(type);
    Tensor eagers = (eager.to(at::kDouble) - exact).abs();
    eagers = at::where(eagers.isnan(), 0.0, eagers);
    return at::maximum(at::maximum(spread * kTimesSpread, eagers * kTimesEager), exact.abs() * (4 * s.relative)) +
           4 * s.absolute;
  }
  Tensor real() const {
    Tensor doubt = doubtful(ours, eager, type);
    if (!ir::is_floating(type)) return doubt & spread.logical_not();
    const Tensor o = ours.to(at::kDouble);
    const Tensor right = (o - exact).abs().le(bound()) | o.eq(exact) | (o.isnan() & exact.isnan()) | spread.isinf() |
                         exact.abs().gt(largest(type) / 2);
    return doubt & right.logical_not();
  }
};

// Only external calls give complex types, by the same kernels on both sides.
bool complex_differs(const Tensor& ours, const Tensor& eager) {
  return !at::allclose(at::view_as_real(ours.to(at::kComplexDouble)), at::view_as_real(eager.to(at::kComplexDouble)),
                       1e-2, 1e-4, true);
}

std::vector<int64_t> unflatten(int64_t flat, at::IntArrayRef shape) {
  std::vector<int64_t> index(shape.size());
  for (size_t d = shape.size(); d-- > 0; flat /= shape[d]) index[d] = flat % shape[d];
  return index;
}

double element(const Tensor& t, int64_t flat) { return t.flatten()[flat].item().toDouble(); }

Difference describe(size_t output, const Output& o, const Tensor& real) {
  Difference d{.output = output, .index = {}, .elements = real.sum().item<int64_t>(), .shape = {}};
  int64_t worst;
  if (ir::is_floating(o.type)) {
    Tensor excess = (o.ours.to(at::kDouble) - o.exact).abs() / o.bound();
    excess = at::where(real, at::where(excess.isnan(), INFINITY, excess), -1.0);
    worst = excess.argmax().item<int64_t>();
    d.explained = element(o.bound(), worst);
  } else {
    worst = real.to(at::kByte).argmax().item<int64_t>();
  }
  d.index = unflatten(worst, o.ours.sizes());
  d.ours = element(o.ours, worst), d.eager = element(o.eager, worst), d.exact = element(o.exact, worst);
  return d;
}

}  // namespace

std::optional<Difference> judge(const ir::Graph& graph, std::span<const Tensor> inputs,
                                std::span<const int64_t> scalars, std::span<const Tensor> ours) {
  auto run = [&](Numbers numbers, bool decomposed, uint64_t seed = 0) {
    return Reference{.numbers = numbers, .decomposed = decomposed, .seed = seed}.run(graph, inputs, scalars);
  };
  try {
    const Tensors eager = run(Numbers::Eager, false);
    std::vector<Output> outputs;
    bool doubt = false;
    for (size_t i = 0; i < ours.size(); ++i) {
      outputs.push_back({.type = graph.type(graph.outputs[i]).dtype,
                         .ours = ours[i],
                         .eager = eager[i],
                         .exact = {},
                         .plain = {},
                         .spread = {}});
      const ir::DType t = outputs.back().type;
      if (!is_compared(t) || !ours[i].numel()) continue;
      if (is_complex(t)) {
        if (complex_differs(ours[i], eager[i]))
          return Difference{.output = i, .index = {}, .elements = ours[i].numel(), .shape = {}};
        continue;
      }
      doubt = doubt || doubtful(ours[i], eager[i], t).any().item<bool>();
    }
    if (!doubt) return {};
    const Tensors exact = run(Numbers::Double, false), plain = run(Numbers::Double, true);
    for (size_t i = 0; i < outputs.size(); ++i) outputs[i].exact = exact[i], outputs[i].plain = plain[i];
    std::vector<size_t> suspects;
    for (size_t i = 0; i < outputs.size(); ++i)
      if (is_compared(outputs[i].type) && !is_complex(outputs[i].type) && ours[i].numel()) suspects.push_back(i);
    int runs = 0;
    for (const int target : kRuns) {
      for (; runs < target && !suspects.empty(); ++runs) {
        const Tensors noisy = run(Numbers::Noisy, true, static_cast<uint64_t>(runs));
        for (size_t i : suspects) outputs[i].add(noisy[i]);
      }
      std::erase_if(suspects, [&](size_t i) { return !outputs[i].real().any().item<bool>(); });
    }
    if (suspects.empty()) return {};
    return describe(suspects[0], outputs[suspects[0]], outputs[suspects[0]].real());
  } catch (const ShapeMismatch& e) {
    return Difference{.index = {}, .shape = e.what(), .node = e.node};
  }
}

}  // namespace lazuli::lazy
