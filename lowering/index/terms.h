// What one fusion group computes: every value that it reads or makes, at the place (form) where it is wanted, as a
// graph of terms over one iteration space. This is where views disappear into forms, and where a group proves that it
// is possible: a view that is not linear in the space, or a value wanted in two places, makes `add` refuse.
#pragma once
#include <optional>
#include <unordered_map>
#include <vector>
#include "ir/graph.h"
#include "lowering/index/linear_form.h"
#include "lowering/index/value_table.h"

namespace lazuli::lowering {

// One thing that a group stores: `value`, laid into the window of `target`. Mostly target is the value itself and the
// window is all of it; a concatenation's operand goes to its slice of the result, and padding is a single element that
// fills all of its target.
struct Root {
  ir::Value value, target;
  std::optional<ir::StridedWindow> window;  // over value's shape; none: all of target in row-major order

  // The shape that is written.
  const ir::Dims& shape(const ir::Graph& graph) const { return graph.type(window ? value : target).shape; }
};

using FormId = uint32_t;

struct Term {
  enum Kind : uint8_t {
    Load,     // memory of `value` at `form`
    Number,   // constant or run-time scalar `value`
    Index,    // the form itself as an i64
    Apply,    // elementwise node `value` on the children
    Reduce,   // reduction node `value` over the child
    Nothing,  // reduction node `value` over no element: what that combines to
  } kind;
  bool row = false;   // the same for all reduced points
  uint8_t depth = 0;  // how many reductions must finish first
  ir::DType dtype;    // in memory; registers hold its compute type
  ir::Value value;
  FormId form = 0;
  std::vector<uint32_t> children;
};

// Reductions over no element are numbers; they need no loop.
bool is_loop_reduction(const ir::Graph& graph, ir::Value v);

class Terms {
 public:
  // A group around `reduction`, or around elementwise values of `shape`.
  Terms(const ir::Graph& graph, const ValueTable& values, ir::Value reduction);
  Terms(const ir::Graph& graph, const ValueTable& values, ir::SizeSpan shape);

  struct Limits {
    size_t loads = SIZE_MAX;  // operands that are not read yet
    bool one_walk = false;    // no element is wanted again once a reduction is done
  };
  // Adds roots, all or none. False: no kernel computes them together with those already there, or not within `limits`.
  bool add(std::span<const Root> roots, const Limits& limits);
  bool add(std::span<const Root> roots) { return add(roots, {}); }
  // After add() failed: the value whose view was not linear, if that was the reason. Storing it would help.
  ir::Value obstacle() const { return obstacle_; }

  struct Stored {
    Root root;
    uint32_t term;
    FormId form;  // in the target
  };
  const std::vector<Stored>& stores() const { return stores_; }
  const Space& space() const { return space_; }
  const Term& operator[](uint32_t t) const { return terms_[t]; }
  const Form& form(FormId f) const { return forms_[f]; }
  size_t size() const { return terms_.size(); }
  size_t loads() const { return loads_; }
  bool has_reduction() const { return bool(reduction_); }
  // A reduction over exactly these: may it join?
  bool same_space(ir::Value reduction) const;

 private:
  void make_space();
  bool try_add(std::span<const Root> roots, const Limits& limits);
  bool walks_again() const;
  bool add_one(const Root& root);
  uint32_t eval(ir::Value v, FormId at);
  bool is_reshape_of_stored(ir::Value v) const;
  uint32_t define(ir::Value v, FormId at);
  uint32_t view(ir::Value v, FormId at);
  uint32_t elementwise(ir::Value v, FormId at);
  uint32_t reduce(ir::Value v, FormId at);
  uint32_t indexed(ir::Value v, FormId at);
  bool depends_on(uint32_t term, uint32_t index) const;
  uint32_t load(ir::Value v, FormId at);
  std::optional<FormId> in_memory(ir::Value v, FormId at);
  uint32_t push(Term term);
  std::optional<FormId> move(ir::Value v, FormId at, ir::SizeSpan shape, const ir::StridedWindow& window);
  std::optional<Form> operand_form(ir::Value reduction);
  std::optional<FormId> root_form(const Root& root);
  FormId intern(Form form);
  void truncate(size_t terms, size_t keys, size_t stores);

  const ir::Graph& graph_;
  const ValueTable& values_;
  ir::Value reduction_;  // the one that the space was made from, if any
  ir::Dims shape_;       // otherwise the elementwise shape
  Space space_;
  std::vector<Split> splits_;
  std::optional<Split> wanted_;
  ir::Value obstacle_;
  std::vector<Term> terms_;
  std::vector<Form> forms_;
  std::unordered_multimap<uint64_t, FormId> form_ids_;
  std::unordered_map<uint64_t, uint32_t> memo_;   // (value, form) to term
  std::vector<uint64_t> keys_;                    // of memo_, in order
  std::unordered_map<uint32_t, FormId> members_;  // values that this group makes, and where
  std::vector<Stored> stores_;
  std::vector<Root> roots_;
  FormId kept_ = 0, element_ = 0, reduced_ = 0;
  size_t loads_ = 0;
};

}  // namespace lazuli::lowering
