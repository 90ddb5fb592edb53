// A backward's steps that have no node (step.h), as one node of torch's engine. As steps without a node never come
// before one that has it, everything between the roots of a backward and the first nodes is such a region: it is
// entered at its roots only, leads to leaves and to nodes of torch, and nobody can have put a hook inside. Its
// derivatives are recorded one after the other, the latest step first, and gradients that meet inside are added as
// values of the trace. Where all that meet are of pieces that lie apart, such as the turns of a loop over a sequence,
// nothing is added: the pieces are put together once.
#pragma once
#include "backend/autograd/backward_range.h"
#include "backend/autograd/repeat.h"
#include "backend/autograd/step.h"
#include "backend/autograd/view_derivative.h"

namespace lazuli::backend {

class Region final : public torch::autograd::Node {
 public:
  // Of the steps behind these roots, none of which has a node.
  static NodePointer<Region> collect(std::span<const StepOf> roots);

  static constexpr const char* kName = "LazuliRegionBackward";
  std::string name() const override { return kName; }
  // As torch's nodes do; of the steps that have had their turn.
  void release_variables() override;
  // A tensor for the gradient that goes along an edge.
  at::Tensor gradient(lazy::Recording& r, size_t edge, ir::Value g) const;
  // The view whose gradient goes along an edge as that of its piece alone; null: that of the whole does.
  const ViewDerivative* piece(size_t edge) const;

  // One backward through the region. It stops where other nodes may have their turn, so that hooks and failures find
  // everything as if each step were a node.
  class Run {
   public:
    // `wanted(edge)`: whether anything is to be computed behind it; all: of every edge.
    template <class Wanted>
    Run(Region& region, bool all, Wanted&& wanted);
    void seed(lazy::Recording& r, uint32_t input, ir::Value g) { add(r, region_.roots_[input], g); }
    bool done() const { return region_.next_ == region_.items_.size(); }
    uint64_t sequence() const { return region_.items_[region_.next_].step->sequence; }  // of the next step
    // Records the next step, and others in the same scope, which `resume` gives: while they come after the number
    // `until`, until one leads to what may run foreign code. Then calls `deliver(edge, cell)`, which may end the scope,
    // for each edge that they lead along (null: nothing flows there), also when a step fails.
    template <class Resume, class Deliver>
    void advance(uint64_t until, Resume&& resume, Deliver&& deliver);

   private:
    void add(lazy::Recording& r, uint32_t slot, ir::Value g);
    // Puts together what has reached the slots of a step's results in pieces.
    void assemble(lazy::Recording& r, size_t item);
    void find_needs(const std::vector<bool>& wanted);
    void record(lazy::Recording& r, uint64_t until);
    void step(lazy::Recording& r, size_t item);
    // Where a scope of recording ends that begins with the next step.
    size_t end_of_scope(uint64_t until) const;
    // Everything besides the trace that decides what the steps before `end` record. False: it cannot be said.
    bool describe(const lazy::Recording& r, size_t end, std::vector<uint64_t>& out) const;
    std::optional<BackwardRecord> note(const lazy::Recording& r, const BackwardKey& key, size_t first) const;
    void repeat(lazy::Recording& r, const BackwardRecord& record);
    Region& region_;
    const bool profiled_ = BackwardRange::wanted();
    std::vector<uint64_t> needs_;                           // by item: masks its inputs; empty: all that lead anywhere
    std::vector<ir::Value> slots_;                          // gradients of the steps' results
    std::vector<uint32_t> open_;                            // those that have one
    std::vector<std::pair<uint32_t, lazy::CellRef>> held_;  // likewise, between two scopes of recording
    std::vector<std::pair<uint32_t, lazy::CellRef>> outgoing_;  // by edge
  };

 private:
  static constexpr uint32_t kEdge = 1u << 31, kNowhere = UINT32_MAX;
  struct Item {
    StepRef step;
    uint32_t slot;    // of its first result
    uint32_t target;  // of its first input
    bool ran = false;
    bool last = false;         // of a scope
    bool gives_piece = false;  // of its input's gradient, not the whole
  };
  struct Source {
    uint32_t item, input;
  };
  // A slot to which nothing flows inside but gradients of pieces that lie apart. Each has a slot of its own.
  struct Whole {
    Pieces pieces;
    uint32_t slot, first;  // its own, and that of the first piece
  };
  explicit Region(uint64_t sequence) : Node(sequence) {}
  torch::autograd::variable_list apply(torch::autograd::variable_list&& gradients) override;
  void find_pieces();
  // Those of an item's results, in the order of their slots.
  std::span<const Whole> wholes_of(size_t item) const;
  uint32_t slots_with_pieces() const { return slot_count_ + static_cast<uint32_t>(owners_.size()); }
  uint32_t owner_of(uint32_t slot) const { return slot < slot_count_ ? slot : owners_[slot - slot_count_]; }
  size_t end_of(size_t item) const { return item + 1 < items_.size() ? items_[item + 1].target : targets_.size(); }

  std::vector<Item> items_;        // the latest first
  std::vector<uint32_t> targets_;  // by input: a slot, or kEdge and the edge's number, or kNowhere
  std::vector<Source> sources_;    // by edge
  std::vector<uint32_t> roots_;    // slots, by the node's inputs
  uint32_t slot_count_ = 0;
  std::vector<Whole> wholes_;       // by slot
  std::vector<uint32_t> owners_;    // the whole's slot, by pieces' slots, which come behind all others
  size_t next_ = 0, released_ = 0;  // items
};

bool is_accumulator(const torch::autograd::Node& n);

// Until the next backward of this thread's begins, or these roots' histories have been asked for as often as they stand
// here, the node of those that have none yet is a region's; `others`, whose gradients are wanted too, get their own
// before that. Does nothing where each node has to stand for itself.
void begin_backward(std::span<c10::TensorImpl* const> roots, std::span<c10::TensorImpl* const> gradients,
                    std::span<c10::TensorImpl* const> others);
void end_backward();
const NodePointer<>* region_of_root(const c10::TensorImpl* t);
int64_t take_root(const c10::TensorImpl* t);

template <class Wanted>
Region::Run::Run(Region& region, bool all, Wanted&& wanted) : region_(region), slots_(region.slots_with_pieces()) {
  if (all) return;
  std::vector<bool> edges(region.next_edges().size());
  for (size_t i = 0; i < edges.size(); ++i) edges[i] = wanted(i);
  find_needs(edges);
}

template <class Resume, class Deliver>
void Region::Run::advance(uint64_t until, Resume&& resume, Deliver&& deliver) {
  auto deliver_all = [&] {
    for (auto& [edge, gradient] : outgoing_) deliver(edge, std::move(gradient));
    outgoing_.clear();
  };
  try {
    record(resume(), until);
  } catch (...) {
    deliver_all();
    throw;
  }
  deliver_all();
}

}  // namespace lazuli::backend
