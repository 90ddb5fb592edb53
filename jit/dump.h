// What became of a graph, written to a folder for a person to read: the trace, the graph after each pass that changed
// it, the plan with its loop nests, each kernel's code, and a picture of the graph.
#pragma once
#include <functional>
#include <string>
#include <vector>
#include "ir/graph.h"
#include "jit/run/executable.h"
#include "lowering/plan/plan.h"

namespace lazuli::jit {

class Dump {
 public:
  // Does nothing when options name no folder. `dump_stages`: any of trace, passes, plan, kernels, graph, separated by
  // commas; empty or "all": each.
  explicit Dump(const CompileOptions& options);

  void trace(const ir::Graph& graph);
  void pass(std::string_view name, const ir::Graph& after);
  void plan(const ir::Graph& graph, const lowering::Plan& plan);
  // What there is to read of a kernel, by the ending of its file's name: the device says that, and only if asked.
  struct Text {
    std::string ending, text;
  };
  void kernel(const std::string& name, const std::function<std::vector<Text>()>& texts);
  void picture(const ir::Graph& graph);  // DOT always, SVG where Graphviz is installed

 private:
  bool wants(std::string_view stage) const;
  void write(const std::string& name, const std::string& text) const;
  std::string numbered(std::string_view name);

  std::string folder_, stages_;
  int next_ = 1;
};

}  // namespace lazuli::jit
