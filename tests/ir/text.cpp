// Runs tests/ir/text/*.lzir: each case is a graph, the passes to run over it, and the graph that has to come out.
//   # case: what it shows
//   # passes: simplify,dead_code     (or "all"; "grad" stands for taking gradients first)
//   %0 : ...
//   # =>
//   ...
// With LAZULI_BLESS=1 in the environment, what comes out is written where it should have come out.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <gtest/gtest.h>
#include "ir/gradient.h"
#include "ir/hash.h"
#include "ir/parse.h"
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "tests/support/test_root.h"

namespace lazuli::ir::testing {
namespace {

struct Case {
  std::string header, passes, before, after;  // header: its comment lines
};

// A case begins at "# case:", and its expectation at "# =>".
std::vector<Case> read_cases(std::istream& in) {
  std::vector<Case> cases;
  bool after = false;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("# case:")) {
      cases.emplace_back();
      after = false;
    }
    if (cases.empty()) continue;
    Case& c = cases.back();
    if (line == "# =>")
      after = true;
    else if (line.starts_with('#'))
      c.header += line + '\n';
    else if (!line.empty())
      (after ? c.after : c.before) += line + '\n';
    if (line.starts_with("# passes: ")) c.passes = line.substr(10);
  }
  return cases;
}

std::string transform(const Case& c) {
  Graph graph = parse(c.before);
  std::vector<Pass> passes;
  std::istringstream names(c.passes);
  for (std::string name; std::getline(names, name, ',');) {
    if (name == "grad") {
      graph = with_gradients(graph);
    } else if (name == "all") {
      passes.insert(passes.end(), all_passes().begin(), all_passes().end());
    } else {
      const Pass* pass = find_pass(name);
      if (!pass) throw std::invalid_argument("no pass " + name);
      passes.push_back(*pass);
    }
  }
  return print(run_passes(std::move(graph), passes, {.disabled = {}, .verify = true, .on_change = {}, .on_time = {}}));
}

void run_file(const std::filesystem::path& path) {
  SCOPED_TRACE(path.filename().string());
  std::ifstream in(path);
  std::vector<Case> cases = read_cases(in);
  ASSERT_FALSE(cases.empty());
  const char* setting = std::getenv("LAZULI_BLESS");
  const bool bless = setting && std::string(setting) == "1";
  std::string blessed;
  for (const Case& c : cases) {
    SCOPED_TRACE(c.header);
    std::string got = transform(c);
    if (!bless) {
      EXPECT_EQ(got, c.after);
    }
    EXPECT_TRUE(same_structure(parse(got), parse(print(parse(got))))) << "the text does not round-trip";
    blessed += (blessed.empty() ? "" : "\n") + c.header + c.before + "# =>\n" + got;
  }
  if (bless) std::ofstream(path) << blessed;
}

TEST(Text, Files) {
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(test_root()) + "/ir/text")) {
    if (entry.path().extension() != ".lzir") continue;
    run_file(entry.path());
    ++files;
  }
  EXPECT_GE(files, 8u);
}

}  // namespace
}  // namespace lazuli::ir::testing
