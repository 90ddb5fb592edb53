#include "backend/autograd/engine.h"

#include <map>
#include <queue>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include "backend/autograd/backward_range.h"
#include "backend/autograd/light_node.h"
#include "backend/autograd/region.h"
#include "backend/record/operands.h"
#include "backend/torch_internals/backward_task.h"
#include "backend/torch_internals/node_hooks.h"
#include "backend/torch_internals/node_mutex.h"
#include "lazy/run/sync.h"
#include "lazy/support/config.h"
#include "lazy/support/mutex.h"

namespace lazuli::backend {
namespace {

namespace autograd = torch::autograd;
using at::Tensor;
using autograd::Edge;
using autograd::Node;
using autograd::variable_list;

bool is_light(const Node& n) { return dynamic_cast<const LightNode*>(&n); }
bool is_region(const Node& n) { return typeid(n) == typeid(Region); }

// What has reached an input of a node so far, while nothing has but gradients of pieces that lie apart: of a loop over
// a sequence, say. They are put together once, where adding them would be as many sums of the whole.
struct InPieces {
  Pieces pieces;
  std::vector<lazy::CellRef> gradients;
};

// What has reached a node so far, by its inputs: values of the trace, or tensors where torch's code runs.
struct Pending {
  NodePointer<> node;
  bool light = false, region = false;
  bool takes_values = false;  // can do with values of the trace
  c10::SmallVector<lazy::CellRef, 1> values;
  std::map<uint32_t, InPieces> in_pieces;
  variable_list tensors;
  std::unique_ptr<Region::Run> run;  // of a region that has begun
};

class Backward final : public Node {
 public:
  explicit Backward(const BackwardTask& task) : task_(task), filtered_(task.is_filtered()) {}
  std::string name() const override { return "LazuliBackward"; }
  const NodePointer<>& running() const { return running_; }

 private:
  variable_list apply(variable_list&&) override {
    const autograd::edge_list& roots = task_.root_edges();
    pending_.reserve(task_.node_count());
    for (size_t i = 0; i < roots.size(); ++i)
      if (roots[i].is_valid()) feed(roots[i], task_.root_gradients()[i]);
    try {
      while (!ready_.empty()) run_next();
    } catch (...) {
      pause();
      throw;
    }
    pause();
    return {};
  }
  void run_next() {
    Node* node = ready_.top().node;
    ready_.pop();
    auto it = pending_.find(node);
    Pending p = std::move(it->second);
    pending_.erase(it);
    run(std::move(p));
  }

  // Torch's order: the latest node first. All leaves have the same number: they go by arrival, so that every step
  // records the same trace.
  struct Turn {
    uint64_t sequence;
    uint64_t arrival;
    Node* node;
    bool operator<(const Turn& o) const { return sequence != o.sequence ? sequence < o.sequence : arrival > o.arrival; }
  };

  const BackwardTask::Filter* filter(Node* n) const { return filtered_ ? task_.filter(n) : nullptr; }
  bool is_wanted(Node* n) const {
    if (!filtered_) return true;
    auto* f = filter(n);
    return f && f->should_execute();
  }

  // One of the edges that lead to a node has been followed. Null when nothing is to be done there.
  Pending* arrive(const Edge& e) {
    Node* n = e.function.get();
    int* left = task_.edges_left(n);
    if (!left) {
      TORCH_INTERNAL_ASSERT(filtered_);
      return nullptr;
    }
    const bool ready = --*left == 0;
    if (ready) task_.take_out(n);
    if (!is_wanted(n)) return nullptr;
    Pending& p = pending_[n];
    if (!p.node) {
      p.node = e.function;
      p.light = is_light(*n);
      p.region = !p.light && is_region(*n);
      p.takes_values = !c10::GradMode::is_enabled() && (p.light || p.region || is_accumulator(*n));
    }
    if (ready) ready_.push({n->sequence_nr(), arrivals_++, n});
    return &p;
  }

  void feed(const Edge& e, Tensor t) {
    Pending* p = arrive(e);
    if (!p || !t.defined()) return;
    if (p->takes_values && p->tensors.empty() && is_plain(t) && is_ours(t)) {
      add_value(*p, e.input_nr, lazy::CellRef::share(&resume().cell(resume().value(t))));
      return;
    }
    add_tensor(*p, e.input_nr, std::move(t));
  }
  // `g` is the gradient of an input of the light node `from`.
  void feed(const Edge& e, LightNode& from, size_t input, lazy::CellRef g) {
    Pending* p = arrive(e);
    if (!p || !g) return;
    if (p->takes_values && p->tensors.empty()) return add_value(*p, e.input_nr, std::move(g));
    lazy::Recording& r = resume();
    add_tensor(*p, e.input_nr, from.operation().input_gradient(r, input, r.cell_value(*g)));
  }
  // `g` goes along an edge of a region.
  void feed(const Region& from, size_t edge, lazy::CellRef g) {
    const Edge& e = from.next_edge(edge);
    if (const ViewDerivative* view = g ? from.piece(edge) : nullptr)
      return feed_piece(e, *view, std::move(g),
                        [&](lazy::Recording& r, ir::Value whole) { return from.gradient(r, edge, whole); });
    if (is_next(*e.function) && accumulate(*e.function, g)) {
      task_.take_out(e.function.get());
      return;
    }
    Pending* p = arrive(e);
    if (!p || !g) return;
    if (p->takes_values && p->tensors.empty()) return add_value(*p, e.input_nr, std::move(g));
    lazy::Recording& r = resume();
    add_tensor(*p, e.input_nr, from.gradient(r, edge, r.cell_value(*g)));
  }
  // `g` is the gradient of the piece that a view takes; `tensor(r, whole)` makes a tensor for that of the whole.
  template <class F>
  void feed_piece(const Edge& e, const ViewDerivative& view, lazy::CellRef g, F tensor) {
    Pending* p = arrive(e);
    if (!p || !g) return;
    const auto whole = [&] {
      lazy::Recording& r = resume();
      return view.spread(r, r.cell_value(*g));
    };
    if (!p->tensors.empty()) {
      const ir::Value v = whole();
      return add_tensor(*p, e.input_nr, tensor(resume(), v));
    }
    if (p->values.size() <= e.input_nr || !p->values[e.input_nr]) {
      InPieces& known = p->in_pieces[e.input_nr];
      if (const size_t at = known.pieces.take(view); at != SIZE_MAX) {
        known.gradients.insert(known.gradients.begin() + static_cast<ptrdiff_t>(at), std::move(g));
        return;
      }
    }
    add_value(*p, e.input_nr, lazy::CellRef::share(&resume().cell(whole())));
  }
  void assemble(Pending& p, uint32_t input) {
    const auto it = p.in_pieces.find(input);
    if (it == p.in_pieces.end()) return;
    const InPieces known = std::move(it->second);
    p.in_pieces.erase(it);
    lazy::Recording& r = resume();
    std::vector<ir::Value> pieces;
    for (const lazy::CellRef& g : known.gradients) pieces.push_back(r.cell_value(*g));
    add_value(p, input, lazy::CellRef::share(&r.cell(known.pieces.whole(r, pieces))));
  }
  void assemble(Pending& p) {
    while (!p.in_pieces.empty()) assemble(p, p.in_pieces.begin()->first);
  }
  void add_value(Pending& p, uint32_t input, lazy::CellRef v) {
    assemble(p, input);
    if (p.values.size() <= input) p.values.resize(std::max(p.node->num_inputs(), input + 1));
    lazy::CellRef& sum = p.values[input];
    if (sum) {
      lazy::Recording& r = resume();
      v = lazy::CellRef::share(&r.cell(r.add(r.cell_value(*sum), r.cell_value(*v))));
    }
    sum = std::move(v);
  }
  void add_tensor(Pending& p, uint32_t input, Tensor t) {
    to_tensors(p);
    if (p.tensors.size() <= input) p.tensors.resize(std::max(p.node->num_inputs(), input + 1));
    pause();
    Tensor& sum = p.tensors[input];
    sum = sum.defined() ? at::add(sum, t) : std::move(t);
  }
  void to_tensors(Pending& p) {
    assemble(p);
    for (size_t i = 0; i < p.values.size(); ++i) {
      if (!p.values[i]) continue;
      if (p.tensors.empty()) p.tensors.resize(p.node->num_inputs());
      lazy::Recording& r = resume();
      ir::Value v = r.cell_value(*p.values[i]);
      p.tensors[i] = r.tensor(v, lazy::to_torch(r.dtype(v)));
    }
    p.values.clear();
  }

  void run(Pending p) {
    assemble(p);
    Node& n = *p.node;
    const BackwardTask::Filter* f = filter(&n);
    const bool captured = f && (f->captures_ || !f->needed_);
    if (!captured && p.tensors.empty() && p.takes_values && !is_hooked(n)) {
      if (p.light) return run_light(p);
      if (p.region) return run_region(p);
      if (accumulate(n, p.values.empty() ? lazy::CellRef() : p.values[0])) return;
    }
    to_tensors(p);
    pause();
    running_ = p.node;
    run_torch(p, f);
    running_.reset();
  }

  void run_light(Pending& p) {
    auto& n = static_cast<LightNode&>(*p.node);
    const size_t edges = n.num_outputs();
    c10::SmallVector<ir::Value, 4> in(n.num_inputs()), out(edges);
    const ViewDerivative* view = n.operation().view();
    if (view && !view->is_piece()) view = nullptr;
    uint64_t needs = 0;
    bool any = false;
    lazy::Recording& r = resume();
    for (size_t i = 0; i < p.values.size(); ++i)
      if (p.values[i]) in[i] = r.cell_value(*p.values[i]), any = true;
    if (any) {
      for (size_t i = 0; i < edges; ++i)
        if (const Edge& e = n.next_edge(i); e.is_valid() && is_wanted(e.function.get())) needs |= mask_of(i);
      BackwardRange range(profiled_, n.operation().name(), n.sequence_nr());
      std::lock_guard lock(graph_mutex());
      n.operation().check();
      if (view)
        out[0] = needs ? view->piece_gradient(r, in[0]) : ir::Value();
      else
        n.operation().backward(r, {in.data(), in.size()}, needs, {out.data(), out.size()});
    }
    // A value's number holds while nobody pauses; its cell outlives the trace.
    c10::SmallVector<lazy::CellRef, 4> gradients(edges);
    for (size_t i = 0; i < edges; ++i)
      if (needs & mask_of(i) && out[i]) gradients[i] = lazy::CellRef::share(&r.cell(out[i]));
    const auto as_tensor = [&](lazy::Recording& own, ir::Value g) { return n.operation().input_gradient(own, 0, g); };
    for (size_t i = 0; i < edges; ++i)
      if (const Edge& e = n.next_edge(i); e.is_valid())
        view ? feed_piece(e, *view, std::move(gradients[i]), as_tensor) : feed(e, n, i, std::move(gradients[i]));
    done_.push_back(std::move(p.node));
    if (done_.size() >= 64) pause();
  }

  // Its steps have their turns as if they were nodes.
  void run_region(Pending& p) {
    auto& n = static_cast<Region&>(*p.node);
    BackwardRange range(profiled_, Region::kName, n.sequence_nr());
    if (!p.run) {
      p.run = std::make_unique<Region::Run>(n, !filtered_,
                                            [&](size_t edge) { return is_wanted(n.next_edge(edge).function.get()); });
      for (uint32_t i = 0; i < p.values.size(); ++i)
        if (p.values[i]) p.run->seed(resume(), i, resume().cell_value(*p.values[i]));
    }
    auto end_scope = [&] {
      pause();
      if (!task_.keeps_graph()) n.release_variables();
    };
    try {
      p.run->advance(
          ready_.empty() ? 0 : ready_.top().sequence, [&]() -> lazy::Recording& { return resume(); },
          [&](size_t edge, lazy::CellRef g) { feed(n, edge, std::move(g)); });
    } catch (...) {
      end_scope();
      // In torch's engine each leaf has its turn before the next node that may fail.
      while (!ready_.empty() && is_accumulator(*ready_.top().node)) run_next();
      throw;
    }
    end_scope();
    if (p.run->done()) return;
    ready_.push({p.run->sequence(), arrivals_++, &n});
    pending_.emplace(&n, std::move(p));
  }

  // Whether the node is a leaf's, to which nothing else flows and which would have the next turn: then it can have it
  // at once.
  bool is_next(Node& n) const {
    if (filtered_ || c10::GradMode::is_enabled() || !is_accumulator(n) || is_hooked(n)) return false;
    if (!ready_.empty() && ready_.top().sequence >= n.sequence_nr()) return false;
    const int* left = task_.edges_left(&n);
    return left && *left == 1 && !pending_.contains(&n);
  }

  // A leaf's first gradient (null: none came) becomes its `.grad` as it is; further ones are added by torch's own node.
  bool accumulate(Node& node, const lazy::CellRef& gradient) {
    auto& n = static_cast<autograd::AccumulateGrad&>(node);
    const Tensor& leaf = n.variable;
    if (!gradient) return true;
    if (!leaf.is_privateuseone() || !is_plain(leaf) || !leaf.requires_grad()) return false;
    std::unique_lock lock(NodeMutex::of(n), std::try_to_lock);
    lazy::Order order;
    if (!lock || leaf.grad().defined() || !lazy::memory_order(leaf.sizes(), leaf.strides(), order)) return false;
    lazy::Recording& r = resume();
    ir::Value g = r.cell_value(*gradient);
    if (r.dtype(g) != lazy::to_ir(leaf.scalar_type()) || !ir::equal(r.shape(g), leaf.sizes())) return false;
    leaf.mutable_grad() =
        order.empty() ? r.tensor(g, leaf.scalar_type()) : r.tensor(r.permute(g, order), leaf.scalar_type(), order);
    return true;
  }

  void run_torch(Pending& p, const BackwardTask::Filter* f) {
    Node& n = *p.node;
    variable_list in = std::move(p.tensors);
    in.resize(std::max<size_t>(in.size(), n.num_inputs()));
    // As in torch's engine, what a node that runs is asked for are the gradients before its tensors' hooks.
    const bool runs = !f || f->needed_;
    if (runs && f && f->captures_) task_.capture(*f, in);
    for (const auto& hook : n.tensor_pre_hooks()) in = (*hook)(in);
    for (const auto& hook : n.retains_grad_hooks()) in = (*hook.second)(in);
    if (!runs && f->captures_) task_.capture(*f, in);
    if (!runs) return;
    for (const auto& hook : n.pre_hooks()) in = (*hook)(in);
    if (!task_.keeps_graph()) n.will_release_variables();
    const bool watched = !n.post_hooks().empty();
    variable_list seen;
    if (watched) seen = in;
    variable_list out = n(std::move(in));
    autograd::validate_outputs(
        n.next_edges(), out, [&](const std::string& what) { return "Function " + n.name() + " returned an " + what; });
    for (const auto& hook : n.post_hooks()) out = (*hook)(out, seen);
    if (!task_.keeps_graph()) n.release_variables();
    for (size_t e = 0; e < out.size() && e < n.num_outputs(); ++e)
      if (n.next_edge(e).is_valid()) feed(n.next_edge(e), std::move(out[e]));
  }

  // Light nodes share a scope of recording. It holds the trace's lock, so it ends before anything runs that may be
  // Python: foreign code, and destructors.
  lazy::Recording& resume() {
    if (!recording_) recording_.emplace();
    return *recording_;
  }
  void pause() {
    recording_.reset();
    if (!task_.keeps_graph())
      for (const auto& n : done_) n->release_variables();
    done_.clear();
  }

  const BackwardTask task_;
  const bool filtered_;  // only some nodes are wanted
  const bool profiled_ = BackwardRange::wanted();
  std::unordered_map<Node*, Pending> pending_;
  std::priority_queue<Turn> ready_;
  uint64_t arrivals_ = 0;
  std::vector<NodePointer<>> done_;
  std::optional<lazy::Recording> recording_;
  NodePointer<> running_;  // null: none that has foreign code
};

// Torch's engine keeps what it knows better: anomaly mode, Python modes, nodes that run on CUDA's streams.
bool takes_over(const BackwardTask& task) {
  if (!lazy::config().inline_backward || autograd::AnomalyMode::is_enabled() ||
      c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::Python))
    return false;
  bool light = false;
  for (const Edge& e : task.root_edges()) light |= e.is_valid() && e.function->device().is_privateuseone();
  if (!light) return false;
  for (const Tensor& t : task.root_gradients())
    if (!t.defined()) return false;
  if (!at::globalContext().hasCUDA()) return true;
  return !task.any_node([](Node& n) { return !is_light(n) && n.device().is_cuda(); });
}

NodePointer<> as_one_node(const BackwardTask& task) {
  auto node = own_node(new Backward(task));
  node->add_input_metadata(Node::undefined_input());
  return node;
}

lazy::Mutex& entry() {
  static auto* m = new lazy::Mutex(lazy::Rank::Entry);  // outlives every thread
  return *m;
}
thread_local bool entering = false;

variable_list hook(const BackwardTask& task) {
  leave_engine();  // all roots are there
  const bool ours = takes_over(task);
  lazy::HostTimer timer(lazy::HostAccount::Autograd);
  variable_list gradients = ours ? task.run(as_one_node(task)) : task.run_as_ever();
  lazy::begin_part();  // what follows does not depend on the batch's size: an optimizer's step, usually
  return gradients;
}

}  // namespace

void enter_engine() {
  if (entering || !lazy::config().light_autograd) return;
  entry().lock();
  entering = true;
}

void leave_engine() {
  if (std::exchange(entering, false)) entry().unlock();
  end_backward();  // unlocked: what it lets go of may run Python
}

std::optional<Tensor> running_node() {
  const auto current = autograd::get_current_node();
  const auto* node = dynamic_cast<const Backward*>(current.get());
  if (!node) return std::nullopt;
  Tensor t = at::empty({0});
  if (node->running()) autograd::impl::set_gradient_edge(t, {node->running(), 0});
  return t;
}

// None: none that may ask for numbers.
std::string running_derivative() {
  const auto current = autograd::get_current_node();
  const auto* all = dynamic_cast<const Backward*>(current.get());
  if (all) return all->running() ? all->running()->name() : "";
  return current ? current->name() : "";
}

void install_engine_hook() {
  lazy::running_derivative = &running_derivative;
  entry();  // made now: the library is being loaded
  if (lazy::config().light_autograd) set_backward_hook(&hook);
}

}  // namespace lazuli::backend
