// Runs without enough memory: what is kept is freed and the allocation tried again; otherwise the error names the op
// and its line, nothing stays allocated, and the executable can be run again.
#include "tests/jit/executable_support.h"

namespace lazuli::testing {
namespace {

using ir::Op;

constexpr int64_t kMiB = int64_t{1} << 20;

// A host with so many bytes, of which `kept` are free but wait for reuse.
struct SmallHost : TestHost {
  int64_t bytes = 0, limit = INT64_MAX, kept = 0;
  int frees = 0;

  jit::Buffer allocate(size_t wanted) override {
    if (bytes + kept + static_cast<int64_t>(wanted) > limit)
      throw jit::OutOfMemory("no " + std::to_string(wanted) + " bytes");
    jit::Buffer b = TestHost::allocate(wanted);
    bytes += static_cast<int64_t>(wanted);
    b.owner =
        std::shared_ptr<void>(b.data, [this, wanted, keep = b.owner](void*) { bytes -= static_cast<int64_t>(wanted); });
    return b;
  }
  void free_memory() override {
    ++frees;
    kept = 0;
  }
};

std::string error_of(jit::Executable& e, TestHost& host, const ir::Graph& graph,
                     const std::vector<jit::Buffer>& inputs) {
  try {
    run(e, host, graph, inputs);
    return "";
  } catch (const jit::OutOfMemory& error) {
    return error.what();
  }
}

ir::Graph doubled() {
  Model m;
  m.at_line("model.py:7");
  auto x = m.input({kMiB / 4});
  m.graph.outputs = {m.add(x, x)};
  return m.graph;
}

TEST(ExecutableOutOfMemory, WhatIsKeptIsFreedFirst) {
  const ir::Graph graph = doubled();
  auto e = jit::compile(graph, {});
  SmallHost host;
  const auto in = buffer_of(host, Floats(kMiB / 4, 2.f));
  host.limit = 2 * kMiB;
  host.kept = kMiB / 2;
  const auto ran = run(*e, host, graph, {in});
  EXPECT_EQ(host.frees, 1);
  EXPECT_EQ(ran.floats[0][5], 4.f);
}

TEST(ExecutableOutOfMemory, NamesOpAndLine) {
  const ir::Graph graph = doubled();
  auto e = jit::compile(graph, {});
  SmallHost host;
  const auto in = buffer_of(host, Floats(kMiB / 4, 2.f));
  host.limit = kMiB;
  EXPECT_EQ(error_of(*e, host, graph, {in}), "add (model.py:7): no 1048576 bytes");
  EXPECT_EQ(host.frees, 1);
  EXPECT_EQ(host.bytes, kMiB);
  host.limit = 2 * kMiB;
  EXPECT_EQ(run(*e, host, graph, {in}).floats[0][0], 4.f);
}

TEST(ExecutableOutOfMemory, InTheMiddleNothingStays) {
  Model m;
  m.at_line("model.py:1");
  auto a = m.input({512, 512});
  auto b = m.apply(Op::matmul, {a, a});
  m.at_line("model.py:2");
  auto c = m.apply(Op::matmul, {b, a});
  m.graph.outputs = {b, c};
  jit::CompileOptions options;
  options.pack = false;  // which takes memory too
  auto e = jit::compile(m.graph, options);
  SmallHost host;
  const auto in = buffer_of(host, Floats(kMiB / 4, 1.f));
  host.limit = 2 * kMiB;
  EXPECT_EQ(error_of(*e, host, m.graph, {in}), "matmul (model.py:2): no 1048576 bytes");
  EXPECT_EQ(host.bytes, kMiB);
  host.limit = 3 * kMiB;
  EXPECT_EQ(run(*e, host, m.graph, {in}).floats[0][0], 512.f);
}

TEST(ExecutableOutOfMemory, OfAnInputsCopyNamesWhoWrites) {
  Model m;
  m.at_line("model.py:3");
  auto x = m.input({kMiB / 4});
  m.graph.outputs = {m.add(x, x)};
  m.graph.donated = {true};
  auto e = jit::compile(m.graph, {});
  SmallHost host;
  const auto in = buffer_of(host, Floats(kMiB / 4, 2.f));
  host.limit = kMiB;
  EXPECT_EQ(error_of(*e, host, m.graph, {in}), "an input's copy for add (model.py:3): no 1048576 bytes");
  EXPECT_EQ(values_of(in)[0], 2.f);
}

TEST(ExecutableOutOfMemory, OfTemporariesNamesTheLastLine) {
  Model m;
  auto x = m.input({int64_t{1} << 23, 2}), y = m.input({2, int64_t{1} << 23}), w = m.input({int64_t{1} << 23, 1});
  m.at_line("model.py:9");
  auto z = m.apply(Op::matmul, {m.apply(Op::matmul, {x, y}), w});
  m.graph.outputs = {z};
  auto e = jit::compile(m.graph, {});
  SmallHost host;
  const std::string error =
      error_of(*e, host, m.graph,
               {buffer_of(host, Floats(1 << 24)), buffer_of(host, Floats(1 << 24)), buffer_of(host, Floats(1 << 23))});
  EXPECT_NE(error.find("temporaries of "), error.npos) << error;
  EXPECT_NE(error.find("matmul (model.py:9)"), error.npos) << error;
  EXPECT_EQ(host.frees, 1);
}

}  // namespace
}  // namespace lazuli::testing
