#include "lazy/shadow.h"

#include <ATen/ATen.h>
#include <limits>
#include "ir/error.h"
#include "lazy/backing.h"
#include "lazy/convert.h"
#include "lazy/culprit.h"
#include "lazy/external.h"
#include "lazy/freeze.h"
#include "lazy/memory.h"
#include "lazy/metrics.h"
#include "lazy/mutex.h"
#include "lazy/plain_dispatch.h"
#include "lazy/reference.h"
#include "lazy/reproduction.h"
#include "lazy/source.h"
#include "lazy/torch_buffers.h"
#include "lazy/workers.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;

struct Reports {
  Mutex mutex{Rank::Leaf};
  std::vector<std::string> json;
  std::optional<std::string> unraised;
};
Reports& reports() {
  static auto* r = new Reports;
  return *r;
}

Tensor tensor_of(const jit::Buffer& b, const ir::Type& t) {
  return tensor_over(b.data, to_ref(t.shape), to_ref(ir::contiguous_strides(t.shape)), to_torch(t.dtype), b.owner);
}

std::string line_of(const ir::Graph& g, uint32_t node) {
  const uint32_t line = g.nodes[node].line;
  return line < g.lines.size() ? g.lines[line] : "";
}
std::string name_of(const ir::Node& n) {
  return n.op == ir::Op::external ? external_name(n.attrs.number(0)) : std::string(ir::name(n.op));
}
std::string named(const ir::Graph& g, uint32_t node) {
  const std::string line = line_of(g, node);
  return name_of(g.nodes[node]) + (line.empty() ? "" : " (" + line + ")");
}
std::string joined(const std::vector<std::string>& words) {
  std::string s;
  for (const std::string& w : words) s += (s.empty() ? "" : ", ") + w;
  return s;
}
std::string number(double x) {
  char text[32];
  snprintf(text, sizeof text, "%.9g", x);
  return text;
}

// The report in words.
std::string text_of(const ir::Graph& whole, const Culprit& c, const std::string& folder) {
  const Difference& d = c.difference;
  const ir::Value wrong = c.shown.graph.outputs[d.output];
  std::ostringstream s;
  s << "lazuli: a shadow run found a difference that rounding does not explain, in " << named(whole, c.node) << "\n";
  if (!d.shape.empty()) {
    s << "  lazuli gives it " << d.shape << "\n";
  } else {
    s << "  of " << ir::to_string(c.shown.graph.type(wrong)) << ", " << d.elements << (d.elements == 1 ? " element differs" : " elements differ") << "; at ["
      << joined([&] {
           std::vector<std::string> w;
           for (int64_t i : d.index) w.push_back(std::to_string(i));
           return w;
         }())
      << "]: lazuli " << number(d.ours) << ", eager " << number(d.eager) << ", in float64 " << number(d.exact) << " (rounding explains "
      << number(d.explained) << ")\n";
  }
  if (c.only_in_trace) {
    s << "  only where the whole trace is computed together\n";
  } else if (!c.alone) {
    std::vector<std::string> with;
    for (size_t i = 0; i < c.with.size() && i < 8; ++i) with.push_back(named(whole, c.with[i]));
    if (c.with.size() > 8) with.push_back("...");
    s << "  only together with " << joined(with) << "\n";
  }
  if (!c.gone_without.empty()) s << "  gone without: " << joined(c.gone_without) << "\n";
  if (!c.interpreter.empty()) s << "  the reference interpreter agrees with " << c.interpreter << "\n";
  if (!folder.empty()) s << "  to see it again: python " << folder << "/reproduce.py\n";
  return s.str();
}

std::string json_list(const std::vector<std::string>& words) {
  std::string s = "[";
  for (const std::string& w : words) s += (s.size() > 1 ? ", " : "") + json_text(w);
  return s + "]";
}

std::string json_of(const ir::Graph& whole, const Culprit& c, const std::string& folder, const std::string& text,
                    const std::map<std::string, int64_t>& interpreted) {
  std::vector<std::string> with, rows;
  for (uint32_t n : c.with) with.push_back(named(whole, n));
  for (const auto& [row, count] : interpreted) rows.push_back(row);
  return "{\"op\": " + json_text(name_of(whole.nodes[c.node])) + ", \"line\": " + json_text(line_of(whole, c.node)) + ", " +
         numbers_json(c.difference) + ", \"together_with\": " + json_list(with) + ", \"gone_without\": " + json_list(c.gone_without) +
         ", \"interpreter_agrees_with\": " + json_text(c.interpreter) + ", \"interpreted_rows\": " + json_list(rows) +
         ", \"folder\": " + json_text(folder) + ", \"text\": " + json_text(text) + "}";
}

void report(const Case& whole, const Difference& difference, const jit::CompileOptions& options, const std::map<std::string, int64_t>& interpreted) {
  const Culprit c = find_culprit(whole, difference, options);
  std::string folder;
  std::string headline = "Lazuli and eager differ in " + named(whole.graph, c.node) + ".";
  try {
    folder = write_reproduction(c.shown, whole.graph, headline, options);
  } catch (const std::exception& e) {
    TORCH_WARN("lazuli: what a shadow run found could not be written: ", e.what());
  }
  const std::string text = text_of(whole.graph, c, folder);
  ++metrics().shadow_mismatches;
  metrics().shadow("differs in " + name_of(whole.graph.nodes[c.node]), line_of(whole.graph, c.node));
  std::lock_guard lock(reports().mutex);
  reports().json.push_back(json_of(whole.graph, c, folder, text, interpreted));
  reports().unraised = text;
  Shadow::has_found = true;
}

void count_down() {
  int64_t& left = config().shadow;
  if (left != std::numeric_limits<int64_t>::max() && left > 0) --left;
}

}  // namespace

Shadow::Shadow(const Trace& trace, const std::vector<uint32_t>& lines, std::span<const ValueId> live, std::span<const jit::Buffer> inputs,
               std::span<const bool> donate) {
  count_down();
  graph_ = freeze(trace, live, {donate.begin(), donate.end()}, &lines);
  scalars_.assign(trace.scalars().begin(), trace.scalars().end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Type& type = trace.cell(trace.inputs()[i])->type;
    jit::Buffer b = inputs[i];
    if (donate[i]) {
      b = allocate_buffer(inputs[i].bytes);
      backing().copy(b.data, inputs[i].data, inputs[i].bytes);
    }
    inputs_.push_back(tensor_of(b, type));
  }
}

void Shadow::check(std::span<const jit::Buffer> outputs, const std::function<jit::CompileOptions()>& options) {
  PlainDispatch guard;
  Workers workers;
  const std::string where = line_text(current_line());
  ++metrics().traces_shadowed;
  try {
    std::vector<Tensor> ours;
    for (size_t i = 0; i < outputs.size(); ++i) ours.push_back(tensor_of(outputs[i], graph_.type(graph_.outputs[i])));
    take_interpreted_rows();
    const Case whole{graph_, inputs_, scalars_};
    const auto difference = judge(graph_, inputs_, scalars_, ours);
    const auto interpreted = take_interpreted_rows();
    for (const auto& [row, count] : interpreted) metrics().shadow("interpreter for " + row, where);
    if (!difference) return metrics().shadow("agrees", where);
    jit::CompileOptions o = options();
    o.dump_folder.clear();
    report(whole, *difference, o, interpreted);
  } catch (const std::exception& e) {
    const auto* torchs = dynamic_cast<const c10::Error*>(&e);
    metrics().shadow(std::string("not compared: ") + (torchs ? torchs->what_without_backtrace() : e.what()), where);
  }
}

void raise_shadow_mismatch() {
  if (!Shadow::has_found.load(std::memory_order_relaxed)) [[likely]]
    return;
  std::optional<std::string> text;
  {
    std::lock_guard lock(reports().mutex);
    text = std::exchange(reports().unraised, std::nullopt);
    Shadow::has_found = false;
  }
  if (text && config().shadow_action == "raise") TORCH_CHECK(false, *text);
  if (text) TORCH_WARN(*text);
}

std::string take_shadow_reports() {
  std::lock_guard lock(reports().mutex);
  std::string s = "[";
  for (const std::string& r : reports().json) s += (s.size() > 1 ? ", " : "") + r;
  reports().json.clear();
  return s + "]";
}

}  // namespace lazuli::lazy
