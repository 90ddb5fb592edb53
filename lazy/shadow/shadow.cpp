#include "lazy/shadow/shadow.h"

#include <limits>
#include <set>
#include <ATen/ATen.h>
#include "ir/error.h"
#include "lazy/external/external_calls.h"
#include "lazy/external/workers.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/shadow/culprit.h"
#include "lazy/shadow/derivatives.h"
#include "lazy/shadow/reference.h"
#include "lazy/shadow/reproduction.h"
#include "lazy/support/convert.h"
#include "lazy/support/metrics.h"
#include "lazy/support/mutex.h"
#include "lazy/support/plain_dispatch.h"
#include "lazy/support/source.h"
#include "lazy/trace/freeze.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;

struct Reports {
  Mutex mutex{Rank::Leaf};
  std::vector<std::string> json;
  std::set<std::string> known;
  std::optional<std::string> unraised;
};
Reports& reports() {
  static auto* r = new Reports;
  return *r;
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

constexpr const char* kHeadline = "lazuli: a shadow run found a difference that rounding does not explain, in ";

std::string position(const Difference& d) {
  std::string s = "[";
  for (size_t i = 0; i < d.index.size(); ++i) s += (i ? ", " : "") + std::to_string(d.index[i]);
  return s + "]";
}
std::string count(const Difference& d) {
  return std::to_string(d.elements) + (d.elements == 1 ? " element differs" : " elements differ");
}

// The report in words.
std::string text_of(const ir::Graph& whole, const Culprit& c, const std::string& folder) {
  const Difference& d = c.difference;
  const ir::Value wrong = c.shown.graph.outputs[d.output];
  std::ostringstream s;
  s << kHeadline << named(whole, c.node) << "\n";
  if (!d.shape.empty()) {
    s << "  lazuli gives it " << d.shape << "\n";
  } else {
    s << "  of " << ir::to_string(c.shown.graph.type(wrong)) << ", " << count(d) << "; at " << position(d)
      << ": lazuli " << number(d.ours) << ", eager " << number(d.eager) << ", in float64 " << number(d.exact)
      << " (rounding explains " << number(d.explained) << ")\n";
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

// What a report says, as ShadowReport in Python has it.
struct Report {
  std::string kind, op, line, text, folder, interpreter;
  Difference difference;
  std::vector<std::string> together_with, gone_without, interpreted_rows;

  std::string json() const {
    return "{\"kind\": " + json_text(kind) + ", \"op\": " + json_text(op) + ", \"line\": " + json_text(line) + ", " +
           numbers_json(difference) + ", \"together_with\": " + json_list(together_with) +
           ", \"gone_without\": " + json_list(gone_without) +
           ", \"interpreter_agrees_with\": " + json_text(interpreter) +
           ", \"interpreted_rows\": " + json_list(interpreted_rows) + ", \"folder\": " + json_text(folder) +
           ", \"text\": " + json_text(text) + "}";
  }
};

void publish(const Report& r) {
  ++metrics().shadow_mismatches;
  metrics().noticed("shadow", (r.kind == "value" ? "differs in " : "derivative differs of ") + r.op, r.line);
  std::lock_guard lock(reports().mutex);
  const std::string key = r.kind + r.op + r.line;
  const bool is_new = reports().known.insert(key).second;  // a step that is wrong is wrong in every iteration
  if (is_new) reports().json.push_back(r.json());
  if (!is_new && config().shadow_action == "warn") return;
  reports().unraised = r.text;
  Shadow::has_found = true;
}

void report(const Case& whole, const WrongDerivative& w) {
  const Difference& d = w.difference;
  std::ostringstream s;
  s << kHeadline << "the derivative of " << named(whole.graph, w.node) << "\n  of " << ir::to_string(w.type) << ", "
    << count(d) << "; at " << position(d) << ": lazuli " << number(d.ours) << ", eager " << number(d.eager)
    << ", both in float64 (rounding explains " << number(d.explained) << ")\n";
  std::string folder;
  try {
    folder = write_reproduction(
        w, whole.graph, "The derivatives differ that Lazuli and eager take of " + named(whole.graph, w.node) + ".");
    s << "  to see it again: python " << folder << "/reproduce.py\n";
  } catch (const std::exception& e) {
    TORCH_WARN("lazuli: what a shadow run found could not be written: ", e.what());
  }
  publish({.kind = "derivative",
           .op = name_of(whole.graph.nodes[w.node]),
           .line = line_of(whole.graph, w.node),
           .text = s.str(),
           .folder = folder,
           .interpreter = "",
           .difference = d,
           .together_with = {},
           .gone_without = {},
           .interpreted_rows = {}});
}

void report(const Case& whole, const Difference& difference, const jit::CompileOptions& options,
            const std::map<std::string, int64_t>& interpreted) {
  const Culprit c = find_culprit(whole, difference, options);
  std::string folder;
  std::string headline = "Lazuli and eager differ in " + named(whole.graph, c.node) + ".";
  try {
    folder = write_reproduction(c.shown, whole.graph, headline, options);
  } catch (const std::exception& e) {
    TORCH_WARN("lazuli: what a shadow run found could not be written: ", e.what());
  }
  const std::string text = text_of(whole.graph, c, folder);
  std::vector<std::string> with, rows;
  for (uint32_t n : c.with) with.push_back(named(whole.graph, n));
  for (const auto& [row, times] : interpreted) rows.push_back(row);
  publish({.kind = "value",
           .op = name_of(whole.graph.nodes[c.node]),
           .line = line_of(whole.graph, c.node),
           .text = text,
           .folder = folder,
           .interpreter = c.interpreter,
           .difference = c.difference,
           .together_with = with,
           .gone_without = c.gone_without,
           .interpreted_rows = rows});
}

void count_down() {
  int64_t& left = config().shadow;
  if (left != std::numeric_limits<int64_t>::max() && left > 0) --left;
}

}  // namespace

Shadow::Shadow(const Trace& trace, const std::vector<uint32_t>& lines, std::span<const ValueId> live,
               std::span<const jit::Buffer> inputs, std::span<const bool> donate) {
  count_down();
  graph_ = freeze(trace, live, {donate.begin(), donate.end()}, &lines);
  derivatives_ = trace.derivatives;
  scalars_.assign(trace.scalars().begin(), trace.scalars().end());
  for (size_t i = 0; i < inputs.size(); ++i) {
    const ir::Type& type = trace.cell(trace.inputs()[i])->type;
    jit::Buffer b = inputs[i];
    if (donate[i]) {
      b = allocate_buffer(inputs[i].bytes);
      backing().copy(b.data, inputs[i].data, inputs[i].bytes);
    }
    inputs_.push_back(tensor_over(b, type));
  }
}

void Shadow::check(std::span<const jit::Buffer> outputs, const std::function<jit::CompileOptions()>& options) {
  PlainDispatch guard;
  Workers workers;
  const std::string where = line_text(current_line());
  ++metrics().traces_shadowed;
  try {
    std::vector<Tensor> ours;
    for (size_t i = 0; i < outputs.size(); ++i) ours.push_back(tensor_over(outputs[i], graph_.type(graph_.outputs[i])));
    take_interpreted_rows();
    const Case whole{graph_, inputs_, scalars_};
    const auto difference = judge(graph_, inputs_, scalars_, ours);
    const auto interpreted = take_interpreted_rows();
    for (const auto& [row, count] : interpreted) metrics().noticed("shadow", "interpreter for " + row, where);
    if (!difference) {
      int64_t compared = 0;
      const auto wrong = judge_derivatives(whole, derivatives_, compared);
      metrics().derivatives_shadowed += compared;
      return wrong ? report(whole, *wrong) : metrics().noticed("shadow", "agrees", where);
    }
    jit::CompileOptions o = options();
    o.dump_folder.clear();
    report(whole, *difference, o, interpreted);
  } catch (const std::exception& e) {
    const auto* torchs = dynamic_cast<const c10::Error*>(&e);
    metrics().noticed("shadow", std::string("not compared: ") + (torchs ? torchs->what_without_backtrace() : e.what()),
                      where);
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
  reports().known.clear();
  return s + "]";
}

}  // namespace lazuli::lazy
