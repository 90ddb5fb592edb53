#include "jit/dump.h"
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <spawn.h>
#include <sys/wait.h>
#include "ir/print.h"

extern char** environ;

namespace lazuli::jit {
namespace {

std::string escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  return out;
}

std::string dot(const ir::Graph& graph) {
  std::string out = "digraph lazuli {\n  node [shape=box fontname=monospace fontsize=10]\n";
  for (uint32_t n = 0; n < graph.nodes.size(); ++n) {
    const ir::Node& node = graph.nodes[n];
    std::string label(ir::name(node.op));
    for (const ir::Type& t : node.types) label += " " + ir::to_string(t);
    out += "  n" + std::to_string(n) + " [label=\"" + escaped(label);
    if (node.line) out += "\\n" + escaped(graph.lines[node.line]);
    out += ir::is_leaf(node.op) ? "\" style=dashed]\n" : "\"]\n";
    for (ir::Value x : node.inputs)
      if (x) out += "  n" + std::to_string(x.node) + " -> n" + std::to_string(n) + "\n";
  }
  for (size_t i = 0; i < graph.outputs.size(); ++i)
    out += "  o" + std::to_string(i) + " [label=\"output " + std::to_string(i) + "\" shape=oval]\n  n" +
           std::to_string(graph.outputs[i].node) + " -> o" + std::to_string(i) + "\n";
  return out + "}\n";
}

// No shell: the folder's name may hold anything. Failing, or finding no Graphviz, leaves the DOT file.
void draw(const std::string& source, const std::string& target) {
  // Bounds on the layout's search: a thousand nodes take seconds instead of minutes.
  const char* argv[] = {"dot",   "-Gnslimit=1", "-Gnslimit1=1", "-Gmclimit=0.3", "-Gsplines=line",
                        "-Tsvg", "-o",          target.c_str(), source.c_str(),  nullptr};
  pid_t child;
  if (posix_spawnp(&child, "dot", nullptr, nullptr, const_cast<char* const*>(argv), environ) != 0) return;
  int status;
  waitpid(child, &status, 0);
}

constexpr size_t kDrawable = 2000;  // nodes; Graphviz takes minutes beyond

}  // namespace

Dump::Dump(const CompileOptions& options) : folder_(options.dump_folder), stages_(options.dump_stages) {
  if (!folder_.empty()) std::filesystem::create_directories(folder_);
}

bool Dump::wants(std::string_view stage) const {
  if (folder_.empty()) return false;
  return stages_.empty() || stages_ == "all" ||
         ("," + stages_ + ",").find("," + std::string(stage) + ",") != std::string::npos;
}

void Dump::write(const std::string& name, const std::string& text) const {
  std::ofstream(std::filesystem::path(folder_) / name) << text;
}

std::string Dump::numbered(std::string_view name) {
  char number[8];
  std::snprintf(number, sizeof number, "%02d-", next_++);
  return number + std::string(name);
}

void Dump::trace(const ir::Graph& graph) {
  if (wants("trace")) write(numbered("trace.lzir"), ir::print(graph));
}

void Dump::pass(std::string_view name, const ir::Graph& after) {
  if (wants("passes")) write(numbered(std::string(name) + ".lzir"), ir::print(after));
}

void Dump::plan(const ir::Graph& graph, const lowering::Plan& plan) {
  if (wants("plan")) write(numbered("plan.txt"), lowering::print(graph, plan));
}

void Dump::kernel(const std::string& name, const std::function<std::vector<Text>()>& texts) {
  if (!wants("kernels")) return;
  for (const auto& [ending, text] : texts()) write(name + "." + ending, text);
}

void Dump::picture(const ir::Graph& graph) {
  if (!wants("graph")) return;
  write("graph.dot", dot(graph));
  const auto base = std::filesystem::path(folder_) / "graph";
  if (graph.nodes.size() <= kDrawable) draw(base.string() + ".dot", base.string() + ".svg");
}

}  // namespace lazuli::jit
