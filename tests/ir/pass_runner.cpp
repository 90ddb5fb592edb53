// What the runner owns: order, disabling by name, reporting, errors that name the pass, and that passes are linear.
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

Graph small() {
  return parse("%0 : f32[2,3] = input [position=0]\n%1 : f32[2] = mean %0 [dims=1 keepdim=0]\nreturn %1\n");
}

TEST(PassRunner, FindsPassesByName) {
  ASSERT_NE(find_pass("simplify"), nullptr);
  EXPECT_EQ(find_pass("nonsense"), nullptr);
}

TEST(PassRunner, ReportsWhatChanged) {
  std::vector<std::string> changed;
  int timed = 0;
  PassOptions options{.disabled = {},
                      .verify = true,
                      .on_change = [&](const Pass& p, const Graph&, const Graph&) { changed.emplace_back(p.name); },
                      .on_time = [&](const Pass&, double) { ++timed; }};
  run_passes(small(), all_passes(), options);
  EXPECT_EQ(changed, (std::vector<std::string>{"decompose", "canonical_reductions"}));
  EXPECT_EQ(timed, static_cast<int>(all_passes().size()));
}

TEST(PassRunner, DisablesByName) {
  Graph g =
      run_passes(small(), all_passes(), {.disabled = {"decompose"}, .verify = true, .on_change = {}, .on_time = {}});
  EXPECT_EQ(print(g), print(small()));
}

TEST(PassRunner, ErrorsNameThePass) {
  Pass broken{"broken", "", [](const Graph& graph) {
                Graph g = graph;
                g.outputs[0].node = 99;
                return g;
              }};
  try {
    run_passes(small(), {&broken, 1}, {.disabled = {}, .verify = true, .on_change = {}, .on_time = {}});
    FAIL() << "the verifier did not run";
  } catch (const InternalError& e) {
    EXPECT_TRUE(std::string(e.what()).starts_with("pass broken: ")) << e.what();
  }
}

}  // namespace
}  // namespace lazuli::ir::testing
