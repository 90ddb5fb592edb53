#include "lazy/run/unplanned.h"

#include <deque>
#include <map>
#include <mutex>
#include <unordered_map>
#include <ATen/ATen.h>
#include "ir/error.h"
#include "ir/passes/pass.h"
#include "ir/rounding.h"
#include "jit/run/packed_operands.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/rows/adam_step.h"
#include "lazy/rows/eager_rows.h"
#include "lazy/rows/library_rows.h"
#include "lazy/rows/torch_rows.h"
#include "lazy/rows/torch_views.h"
#include "lazy/run/draws_apart.h"
#include "lazy/run/unplanned_schedule.h"
#include "lazy/support/config.h"
#include "lazy/support/convert.h"
#include "lazy/support/plain_dispatch.h"
#include "lowering/threads/blas_threads.h"
#include "lowering/threads/crew.h"

namespace lazuli::lazy {
namespace {

using at::Tensor;
using ir::Op;
using Tensors = std::vector<Tensor>;

// Torch's kernels do not give what the graph says.
struct NeedsPlan : std::exception {};

// What external calls gave or threw, by call and in turn, so that none is made twice.
struct Outcome {
  std::vector<jit::Buffer> results;
  std::exception_ptr thrown;
};
using Calls = std::map<int64_t, std::deque<Outcome>>;

// The host, but that external calls that have been made already do what they did.
class Recalling final : public jit::Host {
 public:
  Recalling(jit::Host& host, Calls calls) : host_(host), calls_(std::move(calls)) {}
  jit::Buffer allocate(size_t bytes) override { return host_.allocate(bytes); }
  void free_memory() override { host_.free_memory(); }
  std::shared_ptr<void> let_go(const jit::Buffer& buffer) override { return host_.let_go(buffer); }
  jit::PackedOperands* packed_operands() override { return host_.packed_operands(); }
  std::vector<jit::Buffer> external(int64_t call, const std::string& line, std::span<const jit::BufferView> inputs,
                                    std::span<const ir::Type> results) override {
    auto& made = calls_[call];
    if (made.empty()) return host_.external(call, line, inputs, results);
    const Outcome first = std::move(made.front());
    made.pop_front();
    if (first.thrown) std::rethrow_exception(first.thrown);
    return first.results;
  }
  bool runs_anywhere(int64_t call) const override { return host_.runs_anywhere(call); }
  std::vector<jit::Buffer> eager(const ir::Node& node, std::span<const jit::BufferView> inputs,
                                 std::span<const lowering::Layout> results) override {
    return host_.eager(node, inputs, results);
  }
  std::shared_ptr<void> profile(const std::function<std::string()>& step) override { return host_.profile(step); }
  jit::RunObserver* observer() override { return host_.observer(); }
  void* stream() override { return host_.stream(); }

 private:
  jit::Host& host_;
  Calls calls_;
};

// ---- One run

class Run {
 public:
  Run(const UnplannedSchedule& schedule, jit::Host& host, Calls& calls)
      : graph_(schedule.graph), schedule_(schedule), host_(host), calls_(calls), values_(graph_.nodes.size()) {}

  // Whether it wrote over inputs, so that it cannot be done otherwise any more.
  bool has_written() const { return has_written_; }

  void run(std::span<const jit::Buffer> inputs, std::span<const bool> donate, std::span<const int64_t> scalars,
           std::span<jit::Buffer> outputs) {
    donate_ = donate, inputs_ = inputs;
    if (jit::PackedOperands* packed = host_.packed_operands())
      for (const jit::Buffer& b : inputs) packed->bring_back(b);
    check_inputs();
    jit::RunObserver* const observer = host_.observer();
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) {
      if (schedule_.last_use[id] == UnplannedSchedule::kNever) continue;
      values_[id] = node(id, inputs, scalars, observer);
    }
    Tensors results;
    for (ir::Value v : graph_.outputs) results.push_back(as_graph_says(values_[v.node][v.result], v).contiguous());
    values_.clear();
    for (size_t i = 0; i < outputs.size(); ++i) {
      const auto input = inputs_at_.find(results[i].const_data_ptr());
      if (input == inputs_at_.end())
        outputs[i] = buffer_of(own(results[i]));
      else if (static_cast<size_t>(input->second->types[0].bytes()) == results[i].nbytes())
        outputs[i] = inputs[static_cast<size_t>(input->second->attrs.number(0))];
      else
        outputs[i] = buffer_of(results[i].clone());
    }
    for (Growing& g : growing_) {
      write_over(g.input);
      g.to.addmm_(g.factors[0], g.factors[1]);
    }
  }

 private:
  at::TensorOptions options(ir::DType t) const { return at::TensorOptions().dtype(to_torch(t)); }

  // With memory that is all its own: buffers say who else sees theirs.
  static Tensor& own(Tensor& t) {
    const auto& storage = t.storage();
    const bool shared = t.use_count() > 1 || storage.use_count() > 1 || t.storage_offset() != 0 ||
                        storage.nbytes() != static_cast<size_t>(t.numel()) * t.itemsize();
    return shared ? t = t.clone(at::MemoryFormat::Contiguous) : t;
  }

  Tensor number(ir::DType t, int64_t bits) const {
    return ir::is_floating(t) ? at::scalar_tensor(std::bit_cast<double>(bits), options(t))
                              : at::scalar_tensor(bits, options(t));
  }

  Tensors node(uint32_t id, std::span<const jit::Buffer> inputs, std::span<const int64_t> scalars,
               jit::RunObserver* observer) {
    if (!observer || ir::is_leaf(graph_.nodes[id].op)) return node(id, inputs, scalars);
    const auto begin = std::chrono::steady_clock::now();
    Tensors made = node(id, inputs, scalars);
    observer->ran_alone(schedule_.number, graph_, id, begin, std::chrono::steady_clock::now());
    return made;
  }

  Tensors node(uint32_t id, std::span<const jit::Buffer> inputs, std::span<const int64_t> scalars) {
    const ir::Node& n = graph_.nodes[id];
    switch (n.op) {
      case Op::input:
        return {input(inputs, n)};
      // Not rounded to a narrow type for rows that compute with it: where eager rounds a number, recording has done so.
      case Op::scalar:
        return {number(ir::compute_type(n.types[0].dtype), scalars[static_cast<size_t>(n.attrs.number(0))])};
      case Op::constant:
        return {number(n.types[0].dtype, n.attrs.number(0))};
      case Op::iota:
        return {at::arange(n.attrs.number(0), options(ir::DType::I64))};
      case Op::uninitialized:
        return {at::empty(to_ref(n.types[0].shape), options(n.types[0].dtype))};
      default:
        break;
    }
    if (schedule_.product[id] >= 0) return sum(id);
    if (schedule_.rounded_once[id] != UnplannedSchedule::kNever) return sum_rounded_once(id);
    if (schedule_.factors_only[id] && ir::is_view(n.op)) return std::move(values_[n.inputs[0].node]);
    Tensors in;
    in.reserve(n.inputs.size());
    for (ir::Value v : n.inputs) in.push_back(v ? values_[v.node][v.result] : Tensor());
    if (!ir::is_elementwise(n.op))
      for (size_t i = 0; i < in.size(); ++i)
        if (in[i].defined()) in[i] = as_graph_says(std::move(in[i]), n.inputs[i]);
    for (ir::Value v : n.inputs)
      if (v && schedule_.last_use[v.node] == id) values_[v.node].clear();
    if (n.op == Op::adam_step) return adam_step(id, in);
    if (is_library_row(n.op)) return run_library_row(n, std::move(in));
    switch (n.op) {
      case Op::external:
        return external(n, in);
      case Op::convert:
        return {in[0].to(to_torch(n.types[0].dtype))};
      case Op::bitcast: {
        const Tensor bytes = in[0].contiguous().flatten();
        return {bytes.view(to_torch(n.types[0].dtype)).reshape(to_ref(n.types[0].shape))};
      }
      default:
        break;
    }
    if (ir::is_view(n.op))
      if (Tensor view = torch_view(n, in[0]); view.defined()) return {std::move(view)};
    if (!holds(n, in)) throw NeedsPlan();
    if (takes_dense_only(n.op))
      for (Tensor& x : in)
        if (x.defined()) x = x.contiguous();
    if (schedule_.factors_only[id]) return schedule_.transposed[id] ? Tensors{in[1].t(), in[0].t()} : std::move(in);
    if (schedule_.transposed[id]) return {at::mm(in[1].t(), in[0].t()).t()};
    bool in_first = !in.empty() && take_over(id, 0, in[0]);
    if (!in_first && (n.op == Op::add || n.op == Op::mul) && take_over(id, 1, in[1])) {
      std::swap(in[0], in[1]);
      in_first = true;
    }
    std::optional<Tensors> made = torch_row(n, in, in_first);
    if (!made) throw NeedsPlan();
    return fitted(n, *std::move(made));
  }

  // Of a product and something else, in that's memory where it may be. An input's is written last, when all else is
  // done.
  Tensors sum(uint32_t id) {
    const ir::Node& n = graph_.nodes[id];
    const int product = schedule_.product[id];
    const ir::Value other = n.inputs[1 - product];
    Tensors factors = std::move(values_[n.inputs[product].node]);
    Tensor to = values_[other.node][other.result];
    if (schedule_.last_use[other.node] == id) values_[other.node].clear();
    if (schedule_.grows[id] && is_donated(other)) {
      growing_.push_back({other, to, std::move(factors)});
      return {to};
    }
    return {is_spare(to, n.types[0]) ? to.addmm_(factors[0], factors[1]) : at::addmm(to, factors[0], factors[1])};
  }

  // Of a product or a convolution in 16 bits and something else.
  Tensors sum_rounded_once(uint32_t id) {
    const ir::Node &n = graph_.nodes[id], &product = graph_.nodes[schedule_.rounded_once[id]];
    const auto is_of_product = [&](ir::Value v) { return schedule_.factors_only[v.node]; };
    const size_t of = is_of_product(n.inputs[0]) ? 0 : 1;
    const ir::Value other = n.inputs[1 - of];
    Tensor added = as_graph_says(values_[other.node][other.result], other);
    Tensors factors = std::move(values_[n.inputs[of].node]);
    if (schedule_.last_use[other.node] == id) values_[other.node].clear();
    if (product.op == Op::convolution) {
      factors.push_back(added.reshape({-1}));
      std::optional<Tensors> made = torch_row(product, factors);
      if (!made) throw NeedsPlan();
      return fitted(n, *std::move(made));
    }
    // In the product's shape, as if the views between the two were made before.
    added = added.expand(to_ref(n.types[0].shape));
    std::vector<const ir::Node*> views;
    for (uint32_t at = n.inputs[of].node; at != schedule_.rounded_once[id]; at = views.back()->inputs[0].node) {
      views.push_back(&graph_.nodes[at]);
      added = without(*views.back(), added);
    }
    Tensor y = product.types[0].rank() == 2 ? at::addmm(added, factors[0], factors[1])
                                            : at::baddbmm(added, factors[0], factors[1]);
    for (size_t i = views.size(); i-- > 0;) y = torch_view(*views[i], y);
    return {y};
  }
  // What a view that only moves elements would have to read to give these.
  Tensor without(const ir::Node& view, const Tensor& y) const {
    if (view.op == Op::reshape) return y.reshape(to_ref(graph_.type(view.inputs[0]).shape));
    const auto order = list_of(view.attrs, 0);
    std::vector<int64_t> back(order.size());
    for (size_t d = 0; d < order.size(); ++d) back[static_cast<size_t>(order[d])] = static_cast<int64_t>(d);
    return y.permute(back);
  }

  size_t position(ir::Value input) const { return static_cast<size_t>(graph_[input].attrs.number(0)); }
  bool is_donated(ir::Value v) const {
    return graph_[v].op == Op::input && position(v) < donate_.size() && donate_[position(v)];
  }
  void write_over(ir::Value input) {
    has_written_ = true;
    if (jit::PackedOperands* packed = host_.packed_operands()) packed->written(inputs_[position(input)]);
  }

  Tensors adam_step(uint32_t id, Tensors& in) {
    const ir::Node& n = graph_.nodes[id];
    std::array<Tensor, 3> out;
    for (size_t i = 0; i < 4; ++i) in[i] = in[i].contiguous();
    for (size_t i = 0; i < out.size(); ++i) {
      const size_t from = kAdamState[i];
      out[i] = take_over(id, from, in[from]) ? in[from] : at::empty_like(in[from]);
    }
    run_adam_loop(n, in, out);
    return {out[0], out[1], out[2], out[2]};
  }

  // Whether the node's first result is written where its operand is: in memory that nobody else has, or in an input's,
  // which is written over then, if nothing can fail any more. Nor may a view of it, or a sum that is still to be made,
  // read what was there.
  bool take_over(uint32_t id, size_t operand, const Tensor& t) {
    const ir::Node& n = graph_.nodes[id];
    if (is_spare(t, n.types[0])) return true;
    const ir::Value from = n.inputs[operand];
    if (id < schedule_.sure_from || ir::is_view(n.op) || !from || !is_donated(from) ||
        schedule_.last_use[from.node] != id || graph_.type(from) != n.types[0] || t.use_count() > 1 ||
        t.storage().use_count() > 1)
      return false;
    write_over(from);
    return true;
  }

  // Of what failed there is none. Nothing has been written yet.
  void check_inputs() const {
    for (uint32_t id = 0; id < graph_.nodes.size(); ++id) {
      const ir::Node& n = graph_.nodes[id];
      if (n.op != Op::input || schedule_.last_use[id] == UnplannedSchedule::kNever || n.types[0].numel() == 0) continue;
      if (!inputs_[static_cast<size_t>(n.attrs.number(0))].data) throw NeedsPlan();
    }
  }

  Tensor input(std::span<const jit::Buffer> inputs, const ir::Node& n) {
    const jit::Buffer& b = inputs[static_cast<size_t>(n.attrs.number(0))];
    if (n.types[0].numel() != 0) inputs_at_.emplace(b.data, &n);
    return tensor_over(b, n.types[0]);
  }

  static Tensor as(Tensor x, ir::DType type) {
    const at::ScalarType wanted = to_torch(type);
    return x.scalar_type() == wanted ? std::move(x) : x.to(wanted);
  }
  Tensor as_graph_says(Tensor x, ir::Value v) const { return as(std::move(x), graph_.type(v).dtype); }

  // Whether what the row refuses is not there.
  static bool holds(const ir::Node& n, const Tensors& in) {
    if (n.op == Op::require) return !in[0].any().item<bool>();
    if (n.op != Op::index_position && n.op != Op::check_index) return true;
    if (in[0].numel() == 0) return true;
    if (in[1].numel() != 1) return false;
    const auto [least, most] = at::aminmax(in[0]);
    const int64_t size = in[1].item<int64_t>();
    return least.item<int64_t>() >= (n.op == Op::index_position ? -size : 0) && most.item<int64_t>() < size;
  }

  // Whether nobody else has the tensor's memory, which is as large as a result of this type.
  static bool is_spare(const Tensor& t, const ir::Type& type) {
    if (!t.defined() || type.numel() == 0 || t.use_count() > 1 || t.storage().use_count() > 1) return false;
    const bool ours = t.storage().data_ptr().get_deleter() == at::getCPUAllocator()->raw_deleter();
    return ours && t.scalar_type() == to_torch(type.dtype) && t.sizes() == to_ref(type.shape) && t.is_contiguous();
  }

  // Some of torch's kernels take what they are given for dense.
  static bool takes_dense_only(Op op) {
    const ir::Kind kind = ir::info(op).kind;
    return kind == ir::Kind::Composite || kind == ir::Kind::Window || kind == ir::Kind::Index;
  }

  // What torch gave, in the row's types.
  static Tensors fitted(const ir::Node& n, Tensors made) {
    if (made.size() < n.types.size()) throw NeedsPlan();
    for (size_t r = 0; r < n.types.size(); ++r) {
      const at::IntArrayRef shape = to_ref(n.types[r].shape);
      if (!made[r].defined()) throw NeedsPlan();
      if (made[r].sizes() != shape) {
        // Torch's statistics come in other shapes.
        if (r == 0 || made[r].numel() != n.types[r].numel()) throw NeedsPlan();
        made[r] = made[r].reshape(shape);
      }
      made[r] = as(std::move(made[r]), n.types[r].dtype);
    }
    return made;
  }

  Tensors external(const ir::Node& n, const Tensors& in) {
    std::vector<jit::BufferView> views;
    Tensors dense;
    for (size_t i = 0; i < in.size(); ++i) {
      if (i >= ir::memory_operands(n).size()) {
        views.push_back({.number = in[i].item<int64_t>()});
        continue;
      }
      if (!in[i].defined()) {
        views.push_back({});
        continue;
      }
      const ir::Type& type = graph_.type(n.inputs[i]);
      dense.push_back(in[i].contiguous());
      views.push_back({buffer_of(dense.back()), type, ir::contiguous_strides(type.shape), 0});
    }
    const std::string& line = n.line < graph_.lines.size() ? graph_.lines[n.line] : "";
    Outcome& made = calls_[n.attrs.number(0)].emplace_back();
    try {
      made.results = host_.external(n.attrs.number(0), line, views, n.types);
    } catch (const jit::OutOfMemory&) {
      calls_[n.attrs.number(0)].pop_back();  // a plan may need less
      throw;
    } catch (...) {
      made.thrown = std::current_exception();
      throw;
    }
    Tensors out;
    for (size_t r = 0; r < made.results.size(); ++r) out.push_back(tensor_over(made.results[r], n.types[r]));
    return out;
  }

  const ir::Graph& graph_;
  const UnplannedSchedule& schedule_;
  jit::Host& host_;
  Calls& calls_;
  std::vector<Tensors> values_;   // by node and result
  std::span<const bool> donate_;  // by input: whether it may be written over, if nothing fails afterwards
  std::span<const jit::Buffer> inputs_;
  // A sum that is written over an input, when all results are there.
  struct Growing {
    ir::Value input;
    Tensor to;
    Tensors factors;
  };
  std::vector<Growing> growing_;
  // By memory. Whoever gets it gets the input's own buffer, which knows who else has it.
  std::unordered_map<const void*, const ir::Node*> inputs_at_;
  bool has_written_ = false;
};

bool runs_whole(const ir::Node& composite) {
  return composite.op == Op::adam_step ? has_adam_loop(composite) : has_torch_composite(composite);
}

// What torch has no kernels for, decomposed.
std::shared_ptr<const ir::Graph> for_torch(const std::shared_ptr<const ir::Graph>& graph) {
  const auto runs = [](const ir::Node& n) { return !ir::is_composite(n.op) || runs_whole(n); };
  return std::ranges::all_of(graph->nodes, runs)
             ? graph
             : std::make_shared<const ir::Graph>(ir::decompose_but(*graph, runs_whole));
}

// Whether what it gives is bits that it was given, whoever computes it.
bool is_copied(const ir::Node& n) {
  const ir::OpInfo& row = ir::info(n.op);
  return row.kind == ir::Kind::Leaf || row.kind == ir::Kind::View ||
         (row.kind == ir::Kind::Index && !row.checks_index && ir::is_exact(n.op));
}

// Whether somebody may well compare bits: of what is computed in float64 torch.autograd.gradcheck does.
bool must_repeat_itself(const ir::Graph& graph, const Origins& origins) {
  for (uint32_t id = 0; id < graph.nodes.size(); ++id) {
    const ir::Node& n = graph.nodes[id];
    if (std::ranges::none_of(n.types, [](const ir::Type& t) { return t.dtype == ir::DType::F64; })) continue;
    // Of numbers, such as those of linspace, everybody makes the same.
    const bool repeats = origins.drawn[id] || (origins.number[id] && ir::is_rounded_once(n.op));
    if (!repeats && !is_copied(n)) return true;
  }
  return false;
}

// Torch's kernels give now one number, now another: the vectorized remainder is nan where a quotient overflows.
bool hangs_on_layout(const ir::Node& n) {
  return (n.op == Op::fmod || n.op == Op::remainder) && ir::is_floating(n.types[0].dtype);
}

// A graph's plan, made when it is first asked for.
class LazyPlan {
 public:
  LazyPlan(ir::Graph graph, const jit::CompileOptions& options)
      : graph(std::make_shared<const ir::Graph>(std::move(graph))), options_(options) {}
  jit::Executable& get() const {
    std::call_once(once_, [&] { plan_ = jit::compile(*graph, options_); });
    return *plan_;
  }
  const std::shared_ptr<const ir::Graph> graph;

 private:
  const jit::CompileOptions options_;
  mutable std::once_flag once_;
  mutable std::unique_ptr<jit::Executable> plan_;
};

class Unplanned final : public jit::Executable {
 public:
  Unplanned(ir::Graph graph, const jit::CompileOptions& options)
      : whole_(std::move(graph), options), schedule_(for_torch(whole_.graph)) {
    stats_.unplanned_parts = 1;
  }

  void run(jit::Host& host, std::span<jit::Buffer> inputs, std::span<const bool> donate,
           std::span<const int64_t> scalars, std::span<jit::Buffer> outputs) override {
    Calls calls;
    if (try_run(host, inputs, donate, scalars, outputs, calls)) return;
    Recalling recalling(host, std::move(calls));
    whole_.get().run(recalling, inputs, donate, scalars, outputs);
  }
  jit::Failures failures_of(const jit::Failures& inputs) const override { return whole_.get().failures_of(inputs); }
  const jit::CompileStats& stats() const override { return stats_; }
  std::string plan_text() const override { return whole_.get().plan_text(); }
  bool runs_anywhere(const jit::Host&) const override { return std::ranges::all_of(whole_.graph->nodes, is_copied); }

 private:
  bool try_run(jit::Host& host, std::span<const jit::Buffer> inputs, std::span<const bool> donate,
               std::span<const int64_t> scalars, std::span<jit::Buffer> outputs, Calls& calls) const {
    const PlainDispatch guard;
    std::optional<lowering::OneThread> alone;
    std::optional<lowering::BlasThreads> blas;
    // In reference mode bits follow from how many threads there are.
    if (!schedule_.is_shared && !is_reference_mode()) alone.emplace(), blas.emplace(1);
    Run run(schedule_, host, calls);
    try {
      run.run(inputs, donate, scalars, outputs);
      return true;
    } catch (const std::exception&) {
      if (run.has_written()) throw;
      for (jit::Buffer& b : outputs) b = {};
      return false;
    }
  }

  const LazyPlan whole_;
  const UnplannedSchedule schedule_;
  jit::CompileStats stats_;
};

// A plan for what transforms random numbers, and the rest without.
class DrawingApart final : public jit::Executable {
 public:
  DrawingApart(ir::Graph whole, DrawsApart apart, const jit::CompileOptions& options)
      : sources_(sources(whole, apart.rest)),
        draws_scalars_(std::move(apart.draws.scalars)),
        rest_scalars_(std::move(apart.rest.scalars)),
        draws_(std::move(apart.draws.graph), options),
        rest_(std::move(apart.rest.graph), options),
        whole_(std::move(whole), options) {}

  void run(jit::Host& host, std::span<jit::Buffer> inputs, std::span<const bool> donate,
           std::span<const int64_t> scalars, std::span<jit::Buffer> outputs) override {
    std::vector<jit::Buffer> drawn(draws_.graph->outputs.size()), handed;
    draws_.get().run(host, {}, {}, taken(scalars, draws_scalars_), drawn);
    const auto given = std::make_unique<bool[]>(sources_.size());
    for (size_t i = 0; i < sources_.size(); ++i) {
      const auto [is_drawn, from] = sources_[i];
      given[i] = is_drawn || donate[from];
      handed.push_back(is_drawn ? std::move(drawn[from]) : donate[from] ? std::move(inputs[from]) : inputs[from]);
    }
    rest_.run(host, handed, {given.get(), sources_.size()}, taken(scalars, rest_scalars_), outputs);
  }
  jit::Failures failures_of(const jit::Failures& inputs) const override { return whole_.get().failures_of(inputs); }
  const jit::CompileStats& stats() const override { return rest_.stats(); }
  std::string plan_text() const override { return whole_.get().plan_text(); }

 private:
  struct Source {
    bool is_drawn;
    size_t from;  // of what is drawn, or of the inputs
  };
  static std::vector<Source> sources(const ir::Graph& whole, const ir::Portion& rest) {
    std::vector<Source> sources;
    size_t drawn = 0;
    for (ir::Value v : rest.inputs) {
      const bool given = whole[v].op == Op::input;
      sources.push_back({!given, given ? static_cast<size_t>(whole[v].attrs.number(0)) : drawn++});
    }
    return sources;
  }
  static std::vector<int64_t> taken(std::span<const int64_t> scalars, std::span<const uint32_t> which) {
    std::vector<int64_t> taken;
    for (uint32_t i : which) taken.push_back(scalars[i]);
    return taken;
  }

  const std::vector<Source> sources_;  // by input of the rest
  const std::vector<uint32_t> draws_scalars_, rest_scalars_;
  const LazyPlan draws_;
  Unplanned rest_;
  const LazyPlan whole_;
};

}  // namespace

std::unique_ptr<jit::Executable> unplanned(ir::Graph graph, const jit::CompileOptions& options) {
  const Origins origins = origins_of(graph);
  if (!options.unplanned_always && must_repeat_itself(graph, origins)) return nullptr;
  if (std::ranges::any_of(graph.nodes, hangs_on_layout)) return nullptr;
  if (auto apart = draws_apart(graph, origins.drawn))
    return std::make_unique<DrawingApart>(std::move(graph), *std::move(apart), options);
  return std::make_unique<Unplanned>(std::move(graph), options);
}

}  // namespace lazuli::lazy
