// Every row's derivative, hand-written or derived, against central differences in float64 through the interpreter.
#include "ir/builder.h"
#include "ir/gradient.h"
#include "ir/reads.h"
#include "ir/verify.h"
#include "tests/ir/samples.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

// The outputs weighted and added up: a loss whose derivative tests every output.
Graph with_loss(const Graph& graph) {
  Graph g = graph;
  GraphBuilder b(g);
  Value loss;
  uint32_t weight = 0;
  for (Value v : graph.outputs) {
    const Type type = g.type(v);
    if (!is_floating(type.dtype)) continue;
    Value position = b.emit(Op::iota, std::span<const Value>(), Attrs{{type.numel()}});
    Value factor = b.add(b.mul(b.convert(b.reshape(position, type.shape), DType::F64), 0.25), 1.0 + weight++);
    Value term = b.sum_to(b.mul(v, factor), {});
    loss = loss ? b.add(loss, term) : term;
  }
  g.outputs = {loss};
  return g;
}

std::vector<Tensor> sample_inputs(const Sample& s) {
  std::mt19937 generator(11);
  std::vector<Tensor> inputs;
  for (const Type& t : input_types(s.graph)) {
    Tensor x(t);
    std::uniform_real_distribution<double> number(s.low, s.high);
    for (int64_t i = 0; i < t.numel(); ++i)
      x.set(i, is_floating(t.dtype) ? number(generator) : static_cast<double>(generator() % 2));
    inputs.push_back(std::move(x));
  }
  return inputs;
}

double loss_of(const Graph& g, const std::vector<Tensor>& inputs) { return interpret(g, inputs)[0].at(0); }

void check(const Sample& s) {
  SCOPED_TRACE(s.name);
  Graph loss = with_loss(s.graph), gradient = with_gradients(loss);
  verify(gradient);
  std::vector<Tensor> inputs = sample_inputs(s);
  std::vector<Tensor> results = interpret(gradient, inputs);
  ASSERT_TRUE(std::isfinite(results[0].at(0))) << "the sample's range is outside of the row's domain";
  size_t next = 1;
  for (size_t k = 0; k < inputs.size(); ++k) {
    if (!is_floating(inputs[k].type.dtype)) continue;
    const Tensor& got = results[next++];
    ASSERT_EQ(to_string(got.type), to_string(inputs[k].type));
    for (int64_t i = 0; i < got.type.numel(); ++i) {
      constexpr double h = 1e-5;
      double x = inputs[k].at(i);
      inputs[k].set(i, x + h);
      double up = loss_of(loss, inputs);
      inputs[k].set(i, x - h);
      double down = loss_of(loss, inputs);
      inputs[k].set(i, x);
      double want = (up - down) / (2 * h);
      EXPECT_NEAR(got.at(i), want, 1e-6 * (1 + std::abs(want))) << "input " << k << ", element " << i;
    }
  }
}

// Rows through which nothing flows, or not what a difference quotient sees.
bool flows(const std::string& name) { return name != "detach" && name != "stands_for"; }

TEST(Gradients, ElementwiseRows) {
  for (const Sample& s : elementwise_samples())
    if (flows(s.name)) check(s);
}

TEST(Gradients, OtherRows) {
  for (const Sample& s : other_samples()) check(s);
}

// Values that are used twice, several outputs, operands that are broadcast, an input that nothing depends on.
TEST(Gradients, WholeGraphs) {
  Sample s{"model", parse("%0 : f64[4,6] = input [position=0]\n%1 : f64[6,6] = input [position=1]\n"
                          "%2 : f64[6] = input [position=2]\n%3 : f64[2] = input [position=3]\n"
                          "%4 : f64[4,6] = matmul %0, %1\n%5 : f64[4,6] = add %4, %2\n%6 : f64[4,6] = tanh %5\n"
                          "%7 : f64[4,6] = add %6, %0\n%8 : f64[] = constant [value=0.01]\n"
                          "%9 : f64[4,6], %10 : f64[4,1], %11 : f64[4,1] = layer_norm %7, %2, _, %8 [dims=1]\n"
                          "%12 : f64[4,6] = softmax %9 [dim=1]\n%13 : f64[4,6] = matmul %12, %1\n"
                          "%14 : f64[4,6] = mul %13, %7\nreturn %14, %6, %0")};
  check(s);
  s.graph = with_gradients(with_loss(s.graph));
  s.graph.outputs.erase(s.graph.outputs.begin());
  check(s);
}

// Second derivatives: the gradient graph is itself made of rows that have derivatives.
TEST(Gradients, GradientsOfElementwiseRows) {
  for (Sample s : elementwise_samples()) {
    if (!flows(s.name)) continue;
    Graph gradient = with_gradients(with_loss(s.graph));
    gradient.outputs.erase(gradient.outputs.begin());
    s.graph = gradient;
    check(s);
  }
}

TEST(Gradients, GradientsOfOtherRows) {
  for (Sample s : other_samples()) {
    Graph gradient = with_gradients(with_loss(s.graph));
    gradient.outputs.erase(gradient.outputs.begin());
    s.graph = gradient;
    check(s);
  }
}

// Any order of derivative exists: what the derivative of a row is made of, as far as gradients flow through it, are
// rows that have derivatives, and samples here, for which the same holds.
TEST(Gradients, DerivativesAreMadeOfDifferentiableRows) {
  std::vector<bool> sampled(kOpCount, false);
  std::vector<Graph> gradients;
  for (const auto& samples : {elementwise_samples(), other_samples()})
    for (const Sample& s : samples) {
      for (const Node& n : s.graph.nodes) sampled[static_cast<size_t>(n.op)] = true;
      gradients.push_back(with_gradients(with_loss(s.graph)));
    }
  for (const Graph& g : gradients) {
    std::vector<bool> active(g.nodes.size(), false);
    for (size_t id = 0; id < g.nodes.size(); ++id) {
      const Node& n = g.nodes[id];
      const bool floats = std::ranges::any_of(n.types, [](const Type& t) { return is_floating(t.dtype); });
      std::vector<const Type*> operands, results;
      uint32_t needs = 0;
      for (Value v : n.inputs) {
        if (v && active[v.node] && is_floating(g.type(v).dtype)) needs |= 1u << operands.size();
        operands.push_back(v ? &g.type(v) : nullptr);
      }
      for (const Type& t : n.types) results.push_back(&t);
      active[id] = floats && (n.op == Op::input || needs);
      if (!active[id] || n.op == Op::input) continue;
      EXPECT_TRUE(reads_of_derivative(n.op, operands, results, n.attrs, needs).exists) << name(n.op);
      EXPECT_TRUE(sampled[static_cast<size_t>(n.op)]) << name(n.op);
    }
  }
}

TEST(Gradients, EveryDifferentiableRowHasASample) {
  std::vector<bool> seen(kOpCount, false);
  for (const auto& samples : {elementwise_samples(), other_samples()})
    for (const Sample& s : samples)
      for (const Node& n : s.graph.nodes) seen[static_cast<size_t>(n.op)] = true;
  for (const OpInfo& row : kOps) {
    bool discrete = row.kind == Kind::Leaf || row.kind == Kind::External || row.result == Result::Bool ||
                    (row.vjp && row.saves == SavesNothing && row.kind == Kind::Reduction) || row.name == "bitcast";
    bool integers = row.name.starts_with("bitwise_") || row.name.starts_with("shift_") || row.name == "check_index" ||
                    row.name == "index_position" || row.name == "require" || row.name == "int_mm" ||
                    row.name == "int4_mm" || row.name == "quantize_dynamic";
    if (discrete || integers || row.result == Result::Attr) continue;
    Op op;
    ASSERT_TRUE(parse_op(row.name, op));
    if (is_recurrent(op)) continue;  // recorded only where no gradient is wanted
    EXPECT_TRUE(seen[static_cast<size_t>(op)]) << row.name;
  }
}

}  // namespace
}  // namespace lazuli::ir::testing
