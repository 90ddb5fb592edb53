// Graphs built, compiled and run on plain memory, for tests of fusion, planning and execution.
#pragma once
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <gtest/gtest.h>
#include "ir/builder.h"
#include "jit/kernels/kernel.h"
#include "jit/run/executable.h"

namespace lazuli::testing {

struct TestHost : jit::Host {
  int64_t live = 0, allocations = 0;
  std::function<std::vector<std::vector<float>>(int64_t, std::span<const jit::BufferView>)> kernels;

  jit::Buffer allocate(size_t bytes) override {
    ++live;
    ++allocations;
    void* p = std::aligned_alloc(64, (bytes + 64) / 64 * 64);
    std::memset(p, 0xCD, bytes);
    return {p, bytes, std::shared_ptr<void>(p, [this](void* q) {
              --live;
              std::free(q);
            })};
  }
  std::vector<jit::Buffer> external(int64_t call, const std::string&, std::span<const jit::BufferView> inputs,
                                    std::span<const ir::Type>) override {
    std::vector<jit::Buffer> out;
    for (const auto& values : kernels(call, inputs)) {
      out.push_back(allocate(values.size() * sizeof(float)));
      std::memcpy(out.back().data, values.data(), values.size() * sizeof(float));
    }
    return out;
  }
  std::vector<jit::Buffer> eager(const ir::Node&, std::span<const jit::BufferView>,
                                 std::span<const lowering::Layout>) override {
    throw std::runtime_error("on the CPU every row has a kernel of ours");
  }
};

using Floats = std::vector<float>;

inline Floats random_floats(int64_t n, uint32_t seed = 1, float low = -1, float high = 1) {
  std::mt19937 gen(seed);
  std::uniform_real_distribution<float> d(low, high);
  Floats v(static_cast<size_t>(n));
  for (float& x : v) x = d(gen);
  return v;
}

template <class T>
jit::Buffer buffer_of(TestHost& host, const std::vector<T>& values) {
  jit::Buffer b = host.allocate(values.size() * sizeof(T));
  if (!values.empty()) std::memcpy(b.data, values.data(), values.size() * sizeof(T));
  return b;
}

// Of floats, other ones for each input.
inline std::vector<jit::Buffer> inputs_of(TestHost& host, const ir::Graph& graph) {
  std::vector<jit::Buffer> in(graph.input_count);
  for (const ir::Node& n : graph.nodes)
    if (n.op == ir::Op::input)
      in[static_cast<size_t>(n.attrs.number(0))] =
          buffer_of(host, random_floats(n.types[0].numel(), static_cast<uint32_t>(n.attrs.number(0)) + 1));
  return in;
}

template <class T = float>
std::vector<T> values_of(const jit::Buffer& b) {
  std::vector<T> v(b.bytes / sizeof(T));
  if (!v.empty()) std::memcpy(v.data(), b.data, v.size() * sizeof(T));
  return v;
}

// A graph under construction, with every composite row expanded as it is emitted.
class Model : public ir::Builder {
 public:
  using Builder::emit;
  ir::Value emit(ir::Op op, std::span<const ir::Value> inputs, ir::Attrs attrs,
                 std::span<const ir::Type> types) override {
    if (ir::is_composite(op)) {
      std::vector<ir::Value> results(static_cast<size_t>(ir::info(op).results));
      if (ir::decompose(*this, {op, inputs, {}, attrs}, results)) return last_ = results, results[0];
    }
    return builder_.emit(op, inputs, std::move(attrs), types);
  }
  const ir::Type& type(ir::Value v) const override { return graph.type(v); }
  ir::Value input(ir::DType t, ir::Dims shape) { return builder_.input({t, std::move(shape)}); }
  ir::Value input(ir::Dims shape) { return input(ir::DType::F32, std::move(shape)); }
  ir::Value scalar(ir::DType t) { return builder_.scalar(t); }
  ir::Value apply(ir::Op op, std::initializer_list<ir::Value> in, ir::Attrs attrs = {}) {
    return emit(op, in, std::move(attrs));
  }
  const std::vector<ir::Value>& all() const { return last_; }
  void at_line(const std::string& line) {
    graph.lines.push_back(line);
    builder_.set_line(static_cast<uint32_t>(graph.lines.size() - 1));
  }

  ir::Graph graph;

 private:
  ir::GraphBuilder builder_{graph};
  std::vector<ir::Value> last_;
};

// x scaled by 1 / (1 - p) where the mask is true, and 0 elsewhere, as dropout is recorded. Draws with two new scalars.
struct Dropout {
  ir::Value y, mask;
};
inline Dropout dropout(Model& m, ir::Value x, double p) {
  const ir::Value seed = m.scalar(ir::DType::I64), offset = m.scalar(ir::DType::I64);
  const ir::Dims shape = m.shape(x);
  const ir::Value index = m.reshape(m.apply(ir::Op::iota, {}, {{ir::product(shape)}}), shape);
  const ir::Value drawn =
      m.apply(ir::Op::random_uniform, {seed, offset, index}, {{static_cast<int64_t>(ir::DType::F32)}});
  const ir::Value mask = m.apply(ir::Op::lt, {drawn, m.constant(1 - p, ir::DType::F32)});
  const ir::Value scale = m.constant(1 / (1 - p), ir::DType::F32), none = m.constant(0, ir::DType::F32);
  return {m.apply(ir::Op::where, {mask, m.mul(x, scale), m.mul(x, none)}), mask};
}

struct Ran {
  std::vector<jit::Buffer> outputs;
  std::vector<Floats> floats;
};

inline Ran run(jit::Executable& e, TestHost& host, const ir::Graph& graph, const std::vector<jit::Buffer>& inputs,
               const std::vector<int64_t>& scalars = {}, bool donate = false) {
  std::vector<jit::Buffer> in = inputs;
  std::unique_ptr<bool[]> donated(new bool[in.size() + 1]);
  std::fill(donated.get(), donated.get() + in.size(), donate);
  Ran r;
  r.outputs.resize(graph.outputs.size());
  e.run(host, in, {donated.get(), in.size()}, scalars, r.outputs);
  for (const auto& b : r.outputs) r.floats.push_back(values_of(b));
  return r;
}

inline void expect_close(const Floats& got, const Floats& want, float tolerance = 1e-5f) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], want[i], tolerance * std::max(1.f, std::abs(want[i]))) << "element " << i;
}

}  // namespace lazuli::testing
