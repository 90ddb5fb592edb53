#include "lazy/shadow/culprit.h"

#include <chrono>
#include <ATen/ATen.h>
#include "ir/interpret.h"
#include "lazy/memory/backing.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/rows/torch_host.h"
#include "lazy/shadow/reference.h"
#include "lazy/support/convert.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

// Looking for settings stops after so many seconds.
constexpr double kPatience = 60;

// What eager computes for values of the graph.
Tensors eager_values(const Case& whole, std::span<const ir::Value> values) {
  const ir::Portion part = ir::cut(whole.graph, 0, values);
  Case c{part.graph, {}, {}};
  for (ir::Value v : part.inputs) c.inputs.push_back(whole.inputs[whole.graph.nodes[v.node].attrs.number(0)]);
  for (uint32_t s : part.scalars) c.scalars.push_back(whole.scalars[s]);
  return Reference{}.run(c.graph, c.inputs, c.scalars);
}

// The part, from the values that eager computes for its inputs.
Case case_of(const Case& whole, const ir::Portion& part) {
  Case c{part.graph, eager_values(whole, part.inputs), {}};
  for (uint32_t s : part.scalars) c.scalars.push_back(whole.scalars[s]);
  return c;
}

std::optional<Difference> difference_of(const Case& c, const jit::CompileOptions& options) {
  return judge(c.graph, c.inputs, c.scalars, compute(c, options));
}

// Whether it does not differ. What does not compile or run says nothing.
bool agrees(const Case& c, const jit::CompileOptions& options) {
  try {
    return !difference_of(c, options);
  } catch (const std::exception&) {
    return false;
  }
}

// Compiled in ways that change little of what is computed: those that mend it.
std::vector<std::string> search_settings(const Case& c, const jit::CompileOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const auto is_late = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > kPatience;
  };
  std::vector<std::string> found;
  auto attempt = [&](const std::string& name, auto change) {
    if (is_late()) return;
    jit::CompileOptions o = options;
    Case changed = c;
    change(o, changed);
    if (agrees(changed, o)) found.push_back(name);
  };
  if (std::ranges::any_of(c.graph.donated, [](bool d) { return d; }))
    attempt("donated inputs", [](jit::CompileOptions&, Case& changed) { changed.graph.donated.clear(); });
  if (options.fusion) attempt("fusion", [](jit::CompileOptions& o, Case&) { o.fusion = false; });
  for (const std::string& name : jit::pass_names(options)) {
    if (std::ranges::find(found, "pass " + name) != found.end() ||
        std::ranges::find(options.disabled_passes, name) != options.disabled_passes.end())
      continue;
    attempt("pass " + name, [&](jit::CompileOptions& o, Case&) { o.disabled_passes.push_back(name); });
  }
  if (backing().shares_host_memory)
    attempt("generated code", [](jit::CompileOptions& o, Case&) { o.interpret_kernels = true; });
  return found;
}

// The reference interpreter's results, if it can and takes little time.
std::optional<Tensors> interpreted(const Case& c) {
  constexpr int64_t kMost = 1 << 16;  // elements
  int64_t elements = 0;
  for (const ir::Node& n : c.graph.nodes) {
    if (n.op == ir::Op::external) return {};
    for (const ir::Type& t : n.types) {
      if (!ir::is_native(t.dtype)) return {};
      elements += t.numel();
    }
  }
  if (elements > kMost) return {};
  std::vector<ir::Tensor> inputs;
  for (size_t i = 0; i < c.inputs.size(); ++i) {
    const Tensor host = c.inputs[i].cpu().contiguous();
    const at::IntArrayRef sizes = host.sizes();
    inputs.emplace_back(ir::Type{to_ir(host.scalar_type()), to_dims(sizes)});
    if (host.numel()) std::memcpy(inputs.back().data.data(), host.const_data_ptr(), inputs.back().data.size());
  }
  Tensors out;
  for (const ir::Tensor& t : ir::interpret(c.graph, inputs, c.scalars)) {
    Tensor host = at::empty(to_ref(t.type.shape), at::TensorOptions().dtype(to_torch(t.type.dtype)));
    if (host.numel()) std::memcpy(host.mutable_data_ptr(), t.data.data(), t.data.size());
    out.push_back(host.to(backing().device()));
  }
  return out;
}

std::string ask_interpreter(const Case& c, const Difference& d, const Tensors& ours) {
  try {
    const auto values = interpreted(c);
    if (!values) return "";
    if (!judge(c.graph, c.inputs, c.scalars, *values)) return "eager";
    const Tensor a = (*values)[d.output].to(at::kDouble), b = ours[d.output].to(at::kDouble);
    return at::allclose(a, b, 1e-2, 1e-5, true) ? "lazuli" : "neither";
  } catch (const std::exception&) {
    return "";
  }
}

// Torch gives a row another shape: there is nothing to compute.
Culprit wrong_shape(const Case& whole, const Difference& d) {
  Culprit c;
  c.node = d.node;
  c.difference = d;
  std::vector<ir::Value> results;
  for (uint32_t r = 0; r < whole.graph.nodes[d.node].types.size(); ++r) results.push_back({d.node, r});
  c.shown = case_of(whole, ir::cut(whole.graph, d.node, results));
  return c;
}

}  // namespace

Tensors compute(const Case& c, const jit::CompileOptions& options) {
  const auto executable = jit::compile(c.graph, options);
  std::vector<jit::Buffer> inputs, outputs(c.graph.outputs.size());
  for (const Tensor& t : c.inputs) inputs.push_back(buffer_of(t.clone(at::MemoryFormat::Contiguous)));
  const auto donate = std::make_unique<bool[]>(inputs.size() + 1);
  for (size_t i = 0; i < inputs.size(); ++i) donate[i] = i < c.graph.donated.size() && c.graph.donated[i];
  TorchHost host;
  host.counts_external_calls = false;
  executable->run(host, inputs, {donate.get(), inputs.size()}, c.scalars, outputs);
  Tensors out;
  for (size_t i = 0; i < outputs.size(); ++i) {
    const ir::Type& t = c.graph.type(c.graph.outputs[i]);
    const ir::Dims strides = ir::contiguous_strides(t.shape);
    out.push_back(tensor_over(outputs[i].data, to_ref(t.shape), to_ref(strides), to_torch(t.dtype), outputs[i].owner));
  }
  return out;
}

Culprit find_culprit(const Case& whole, const Difference& difference, const jit::CompileOptions& options) {
  if (!difference.shape.empty()) return wrong_shape(whole, difference);
  Culprit c;
  c.difference = difference;
  const ir::Value wrong = whole.graph.outputs[difference.output];
  c.node = wrong.node;
  const auto blame = ir::find_blame(whole.graph, wrong, [&](const ir::Portion& part) {
    try {
      return difference_of(case_of(whole, part), options).has_value();
    } catch (const std::exception&) {
      return false;
    }
  });
  if (blame) {
    c.node = blame->node;
    c.shown = case_of(whole, blame->part);
    for (size_t i = 0; i < blame->part.nodes.size(); ++i) {
      const uint32_t node = blame->part.nodes[i];
      if (node != blame->node && !ir::is_leaf(blame->part.graph.nodes[i].op)) c.with.push_back(node);
    }
    c.alone = c.with.empty();
  } else {
    c.only_in_trace = true;
    c.shown = whole;
  }
  const Tensors ours = compute(c.shown, options);
  if (auto d = judge(c.shown.graph, c.shown.inputs, c.shown.scalars, ours)) c.difference = *std::move(d);
  c.gone_without = search_settings(c.shown, options);
  c.interpreter = ask_interpreter(c.shown, c.difference, ours);
  return c;
}

}  // namespace lazuli::lazy
