// A run of torch's engine that is handed over. The engine has a hook for Python's compiled autograd: it gives each
// backward away, once the edges of its graph are counted. Ours takes it, and gives it back as one node, so that the
// engine's guards, callbacks, captures and errors stay as they are. The hook, and what the engine knows of a run
// (`GraphTask`), are meant for torch alone.
#pragma once
#include <memory>
#include <torch/csrc/autograd/functions/basic_ops.h>
#include <torch/csrc/autograd/graph_task.h>
#include "backend/torch_internals/node_pointer.h"

namespace lazuli::backend {

class BackwardTask {
 public:
  using Node = torch::autograd::Node;
  using Filter = torch::autograd::GraphTask::ExecInfo;

  BackwardTask(const torch::autograd::GraphTask& task, const NodePointer<>& root)
      : task_(const_cast<torch::autograd::GraphTask&>(task)), root_(root) {}

  // Where backward starts, and with which gradients.
  const torch::autograd::edge_list& root_edges() const { return root_->next_edges(); }
  const torch::autograd::variable_list& root_gradients() const {
    return static_cast<const torch::autograd::GraphRoot&>(*root_).outputs;
  }
  bool keeps_graph() const { return task_.keep_graph_; }

  size_t node_count() const { return task_.dependencies_.size(); }
  template <class F>
  bool any_node(F&& f) const {
    for (const auto& [n, edges] : task_.dependencies_)
      if (f(*n)) return true;
    return false;
  }
  // How many edges that lead to the node have not been followed. Null when it is taken out, and where torch does not
  // look: behind nodes that are made too early to lead to what is wanted.
  int* edges_left(Node* n) const {
    auto it = task_.dependencies_.find(n);
    return it == task_.dependencies_.end() ? nullptr : &it->second;
  }
  void take_out(Node* n) const { task_.dependencies_.erase(n); }

  // Whether only some nodes are wanted: those that lead to what `torch.autograd.grad` asks for.
  bool is_filtered() const { return !task_.exec_info_.empty(); }
  // Null: nothing is wanted of the node, or the run is not filtered.
  const Filter* filter(Node* n) const {
    auto it = task_.exec_info_.find(n);
    return it == task_.exec_info_.end() ? nullptr : &it->second;
  }
  // The gradients that reach a node, as results of the run.
  void capture(const Filter& filter, const torch::autograd::variable_list& gradients) const;

  // Runs `node` on torch's engine in place of the roots: the roots, to run all as ever. Also says what was warned of.
  torch::autograd::variable_list run(NodePointer<> node) const;
  torch::autograd::variable_list run_as_ever() const { return run(root_); }

 private:
  torch::autograd::GraphTask& task_;
  NodePointer<> root_;
};

using BackwardHook = torch::autograd::variable_list (*)(const BackwardTask&);
// Until somebody else installs a hook of their own.
void set_backward_hook(BackwardHook hook);

}  // namespace lazuli::backend
