#include "lowering/nest/loops.h"
#include <algorithm>
#include <bit>
#include <map>
#include <unordered_map>
#include "ir/error.h"
#include "ir/hash.h"
#include "lowering/index/index_rules.h"
#include "lowering/nest/scalar_program.h"
#include "lowering/nest/schedules/dimensions.h"

namespace lazuli::lowering {
namespace {

using ir::DType;
using ir::Prim;

bool is_costly(const ScalarProgram& program) {
  return std::ranges::any_of(program.graph.nodes(), [](const ir::ScalarNode& n) {
    return n.prim == Prim::pow || n.prim == Prim::atan2 || (n.prim >= Prim::exp && n.prim <= Prim::erfc);
  });
}

bool is_argument_reduction(Reduce r) { return r == Reduce::ArgMax || r == Reduce::ArgMin; }

// Writes the scalar program of a group, stage by stage. An element value that a later stage wants again is written
// again there; row values are written once. Equal instructions of a section are shared.
class LoopWriter {
 public:
  LoopWriter(const ir::Graph& graph, const Terms& terms, const std::vector<bool>& needed)
      : graph_(graph), terms_(terms), used_(terms.size()) {
    for (size_t i = 0; i < needed.size(); ++i) {
      if (!needed[i]) continue;
      stores_.push_back(&terms.stores()[i]);
      find_used(stores_.back()->term);
    }
  }

  Loops write() {
    dims_ = choose_dimensions(terms_.space(), walks(), ordered_reduction_, has_work_by_row_);
    LoopNest& nest = out_.nest;
    nest.schedule = dims_.schedule;
    nest.rank = static_cast<uint8_t>(dims_.rank());
    nest.reduced = static_cast<uint8_t>(dims_.rank() - dims_.kept);
    out_.sizes = dims_.sizes;
    nest.stages = static_cast<uint8_t>(deepest_ + 1);
    sections_.resize(2 * nest.stages);
    for (stage_ = 0; stage_ < nest.stages; ++stage_) write_stage();
    number_instructions();
    nest.params = static_cast<uint16_t>(out_.params.size());
    nest.checks = static_cast<uint16_t>(out_.checks.size());
    return std::move(out_);
  }

 private:
  void find_used(uint32_t t) {
    if (used_[t]) return;
    used_[t] = true;
    const Term& term = terms_[t];
    deepest_ = std::max(deepest_, term.depth);
    if (term.kind == Term::Reduce) {
      reduces_.push_back(t);
      ordered_reduction_ |= is_argument_reduction(ir::info(graph_[term.value].op).combine);
      has_work_by_row_ |= ordered_reduction_;  // one lane's result is to be found among all
    }
    has_work_by_row_ |= term.kind == Term::Apply && term.row && term.depth > 0 && is_costly(program_of(term));
    for (uint32_t c : term.children) find_used(c);
  }

  // Stores lead where nothing is reduced: a transposing kernel writes rows and reads columns.
  std::vector<const Form*> walks() const {
    std::vector<const Form*> stored, loaded;
    for (const auto* s : stores_) stored.push_back(&terms_.form(s->form));
    for (uint32_t t = 0; t < terms_.size(); ++t)
      if (used_[t] && (terms_[t].kind == Term::Load || terms_[t].kind == Term::Index))
        loaded.push_back(&terms_.form(terms_[t].form));
    auto moves = [](const Form* f) { return std::count(f->coefs.begin(), f->coefs.end(), 0); };
    std::stable_sort(loaded.begin(), loaded.end(), [&](const Form* a, const Form* b) { return moves(a) < moves(b); });
    auto& first = terms_.space().reduced() ? loaded : stored;
    auto& second = terms_.space().reduced() ? stored : loaded;
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  void write_stage() {
    for (uint32_t t : reduces_)
      if (terms_[t].depth == stage_ + 1) write_reduce(t);
    for (const auto* s : stores_)
      if (terms_[s->term].depth == stage_) term(s->term);
    // Last of its section, so that what a point reads is read before anything of it is overwritten.
    for (const auto* s : stores_)
      if (terms_[s->term].depth == stage_) write_store(*s);
  }

  void write_reduce(uint32_t t) {
    const Term& r = terms_[t];
    Inst i{.code = Code::Reduce, .reduce = ir::info(graph_[r.value].op).combine};
    uint16_t x = rounded(r.children[0]);
    if (is_argument_reduction(i.reduce)) {
      i.dtype = DType::I64;
    } else {
      i.dtype = ir::compute_type(r.dtype);
      x = convert(x, i.dtype, terms_[r.children[0]].row);
    }
    i.args[0] = x;
    reduce_insts_[t] = add(i, false);
  }

  void write_store(const Terms::Stored& s) {
    const Term& t = terms_[s.term];
    const ir::Type& target = graph_.type(s.root.target);
    const bool row_store = stores_row(s);
    Inst i{.code = Code::Store, .dtype = ir::compute_type(target.dtype)};
    i.args[0] = convert(term(s.term), i.dtype, t.row);
    i.slot = access(s.root.target, s.form, row_store, true);
    add(i, row_store);
  }

  // A row value may still be stored per element: a broadcast that somebody wants in memory.
  bool stores_row(const Terms::Stored& s) const {
    if (!terms_[s.term].row) return false;
    const Form& f = terms_.form(s.form);
    for (uint32_t d = terms_.space().kept; d < terms_.space().rank(); ++d)
      if (f.coefs[d] != 0) return false;
    return true;
  }

  // The instruction that holds term t in the current stage.
  uint16_t term(uint32_t t) {
    const Term& x = terms_[t];
    if (x.kind == Term::Reduce) return reduce_insts_.at(t);
    const uint64_t key = uint64_t(t) << 8 | (x.row ? 0xFF : stage_);
    if (auto it = written_.find(key); it != written_.end()) return it->second;
    uint16_t inst = 0;
    switch (x.kind) {
      case Term::Load:
        inst = write_load(x);
        break;
      case Term::Number:
        inst = write_number(x);
        break;
      case Term::Index:
        inst = write_index(x);
        break;
      case Term::Apply:
        inst = write_apply(x);
        break;
      case Term::Nothing:
        inst = write_nothing(x);
        break;
      case Term::Reduce:
        break;
    }
    written_[key] = inst;
    return inst;
  }

  uint16_t write_load(const Term& x) {
    Inst i{.code = Code::Load, .dtype = ir::compute_type(x.dtype)};
    if (!x.children.empty()) {
      i.args[0] = index(x);
      if (terms_.form(x.form).index_size == 0) return literal(0, i.dtype, x.row);  // every index fails, none is read
    }
    i.slot = access(x.value, x.form, x.row, false);
    return add(i, x.row);
  }

  // The index that moves a term's form.
  uint16_t index(const Term& x) {
    const Form& f = terms_.form(x.form);
    const bool row = terms_[f.index].row;
    const uint16_t i = convert(term(f.index), DType::I64, row);
    return checked_index(i, known(f.index_size, row), f.index_by, row);
  }

  // Inside [0, size), also where the check fails: what is computed from it fails no further check and reads nothing
  // foreign.
  uint16_t checked_index(uint16_t i, uint16_t size, ir::Value by, bool row) {
    const DType t = all_[i].dtype;
    const uint16_t zero = literal(0, t, row);
    const uint16_t low = prim(Prim::lt, DType::Bool, row, {i, zero});
    const uint16_t high = prim(Prim::le, DType::Bool, row, {size, i});
    check({Check::Index, by}, prim(Prim::bit_or, DType::Bool, row, {low, high}), row);
    const uint16_t last = prim(Prim::sub, t, row, {size, literal(1, t, row)});
    return prim(Prim::maximum, t, row, {prim(Prim::minimum, t, row, {i, last}), zero});
  }

  void check(const Check& what, uint16_t failed, bool row) {
    const auto known = std::find(out_.checks.begin(), out_.checks.end(), what);
    const auto number = static_cast<uint16_t>(known - out_.checks.begin());
    if (known == out_.checks.end()) out_.checks.push_back(what);
    add({.code = Code::Check, .dtype = DType::Bool, .slot = number, .args = {failed}}, row);
  }

  uint16_t write_number(const Term& x) {
    const ir::Node& node = graph_[x.value];
    const DType t = ir::compute_type(x.dtype);
    BoundParam p;
    if (node.op == ir::Op::scalar)
      p.scalar = static_cast<int32_t>(node.attrs.number(0));
    else
      p.bits = node.attrs.size(0);
    auto [it, fresh] = numbers_.try_emplace(x.value, static_cast<uint16_t>(out_.params.size()));
    if (fresh) out_.params.push_back(p);
    return add({.code = Code::Param, .dtype = t, .slot = it->second}, x.row);
  }

  uint16_t write_nothing(const Term& x) {
    const Reduce r = ir::info(graph_[x.value].op).combine;
    const bool one = r == Reduce::Prod || r == Reduce::All;
    return literal(one ? 1.0 : 0.0, ir::compute_type(x.dtype), x.row);
  }

  uint16_t literal(double value, DType t, bool row) {
    return add({.code = Code::Prim, .prim = Prim::literal, .dtype = t, .value = value}, row);
  }

  uint16_t known(ir::Size number, bool row) {
    auto [it, fresh] = known_.try_emplace(number.bits(), static_cast<uint16_t>(out_.params.size()));
    if (fresh) out_.params.push_back({-1, number});
    return add({.code = Code::Param, .dtype = DType::I64, .slot = it->second}, row);
  }

  // A linear function of the loops' indices, as instructions.
  uint16_t write_index(const Term& x) {
    const Form& f = terms_.form(x.form);
    std::optional<uint16_t> sum;
    bool sum_row = true;
    auto plus = [&](uint16_t part, bool row) {
      sum_row &= row;
      sum = sum ? prim(Prim::add, DType::I64, sum_row, {*sum, part}) : part;
    };
    const bool reduces = terms_.space().reduced() > 0;
    for (uint32_t d = 0; d < dims_.rank(); ++d) {
      if (dims_.coef(f, d) == 0) continue;
      const bool row = reduces && d < dims_.kept;
      uint16_t part = add({.code = Code::Position, .dtype = DType::I64, .slot = static_cast<uint16_t>(d)}, row);
      if (const ir::Size c = dims_.coef(f, d); c != 1) part = prim(Prim::mul, DType::I64, row, {part, known(c, row)});
      plus(part, row);
    }
    if (f.index != kNoTerm) {
      const bool row = terms_[f.index].row;
      const uint16_t i = index(x);
      plus(f.index_coef == 1 ? i : prim(Prim::mul, DType::I64, row, {i, known(f.index_coef, row)}), row);
    }
    if (f.offset != 0 || !sum) {
      const bool row = sum ? sum_row : reduces;
      plus(known(f.offset, row), row);
    }
    return convert(*sum, ir::compute_type(x.dtype), x.row);
  }

  uint16_t write_apply(const Term& x) {
    const ScalarProgram& p = program_of(x);
    std::vector<uint16_t> at(p.graph.size());
    for (size_t n = 0; n < p.graph.size(); ++n) {
      const ir::ScalarNode& s = p.graph[static_cast<uint16_t>(n)];
      if (s.prim == Prim::argument) {
        const uint32_t child = x.children[s.index];
        at[n] = convert(rounded(child), s.dtype, terms_[child].row);
        continue;
      }
      Inst i{.code = Code::Prim, .prim = s.prim, .dtype = s.dtype, .value = s.value};
      for (int a = 0; a < ir::info(s.prim).arity; ++a) i.args[a] = at[s.args[a]];
      if (s.prim == Prim::check_index) {
        at[n] = checked_index(at[s.args[0]], at[s.args[1]], x.value, x.row);
        continue;
      }
      if (ir::can_fail(s.prim, s.dtype)) check_divisor(i.args[1], x);
      at[n] = add(i, x.row);
    }
    return at[p.result];
  }

  void check_divisor(uint16_t divisor, const Term& x) {
    const DType t = all_[divisor].dtype;
    check({Check::ZeroDivisor, x.value}, prim(Prim::eq, DType::Bool, x.row, {divisor, literal(0, t, x.row)}), x.row);
  }

  // What other instructions read of a term: a result of narrow type as if it had been stored, as eager stores it. A
  // store rounds by itself.
  uint16_t rounded(uint32_t t) {
    const Term& x = terms_[t];
    const uint16_t exact = term(t);
    if (!ir::is_reduced_floating(x.dtype) || is_narrow_already(x)) return exact;
    const Prim round = x.dtype != DType::BF16   ? Prim::round_f16
                       : reads_only_its_type(x) ? Prim::round_bf16_result
                                                : Prim::round_bf16;
    const uint64_t key = uint64_t(t) << 8 | (x.row ? 0xFF : stage_);
    auto [it, fresh] = rounded_.try_emplace(key, uint16_t{0});
    if (fresh) it->second = prim(round, DType::F32, x.row, {exact});
    return it->second;
  }

  // Memory is; what an eager kernel takes as a number beside its tensors counts in full.
  bool is_narrow_already(const Term& x) const {
    if (x.kind == Term::Load || x.kind == Term::Number) return true;
    const auto in_full = [&](uint32_t c) { return terms_[c].kind == Term::Number; };
    return x.kind == Term::Apply && reads_only_its_type(x) && program_of(x).keeps_narrow &&
           std::none_of(x.children.begin(), x.children.end(), in_full);
  }

  // Among the floating types.
  bool reads_only_its_type(const Term& x) const {
    return std::all_of(x.children.begin(), x.children.end(),
                       [&](uint32_t c) { return !ir::is_floating(terms_[c].dtype) || terms_[c].dtype == x.dtype; });
  }

  const ScalarProgram& program_of(const Term& x) const {
    const ir::Node& node = graph_[x.value];
    std::vector<DType> types;
    for (ir::Value v : node.inputs) types.push_back(graph_.type(v).dtype);
    return scalar_program(node.op, types, x.dtype);
  }

  uint16_t prim(Prim p, DType t, bool row, std::initializer_list<uint16_t> args) {
    Inst i{.code = Code::Prim, .prim = p, .dtype = t};
    std::copy(args.begin(), args.end(), i.args);
    return add(i, row);
  }

  uint16_t convert(uint16_t x, DType to, bool row) {
    return all_[x].dtype == to ? x : prim(Prim::convert, to, row, {x});
  }

  uint16_t access(ir::Value v, FormId form, bool row, bool store) {
    const auto key = std::make_tuple(v, form, row, store);
    if (auto it = access_ids_.find(key); it != access_ids_.end()) {
      BoundAccess& b = out_.accesses[it->second];
      b.last_stage = std::max(b.last_stage, stage_);
      return it->second;
    }
    const Form& f = terms_.form(form);
    BoundAccess b{v, f.offset, {}, f.index_coef, stage_, stage_};
    for (uint32_t d = 0; d < dims_.rank(); ++d)
      b.strides.push_back(dims_.sizes[d].is_surely_one() && !row ? ir::Size(1) : dims_.coef(f, d));
    const VectorStride stride = stride_class(b.strides[out_.nest.vector_dim()]);
    out_.nest.accesses.push_back({graph_.type(v).dtype, stride, row, store, f.index != kNoTerm});
    out_.accesses.push_back(std::move(b));
    const auto id = static_cast<uint16_t>(out_.accesses.size() - 1);
    access_ids_.emplace(key, id);
    return id;
  }

  uint16_t add(Inst i, bool row) {
    i.row = row;
    i.stage = stage_;
    const size_t section = 2 * stage_ + (row ? 0 : 1);
    if (i.code != Code::Store) {
      uint64_t h = ir::for_lookup(hash(i));
      auto [begin, end] = shared_.equal_range(h);
      for (auto it = begin; it != end; ++it)
        if (same(all_[it->second], i)) return it->second;
      shared_.emplace(h, static_cast<uint16_t>(all_.size()));
    }
    LAZULI_CHECK(all_.size() < UINT16_MAX, "a kernel has too many instructions");
    all_.push_back(i);
    sections_[section].push_back(static_cast<uint16_t>(all_.size() - 1));
    return sections_[section].back();
  }

  static bool same(const Inst& a, const Inst& b) {
    return a == b && std::bit_cast<int64_t>(a.value) == std::bit_cast<int64_t>(b.value);
  }
  static uint64_t hash(const Inst& i) {
    uint64_t h = 0;
    for (uint64_t x : {uint64_t(i.code), uint64_t(i.prim), uint64_t(i.reduce), uint64_t(i.dtype), uint64_t(i.stage),
                       uint64_t(i.row), uint64_t(i.slot), uint64_t(i.args[0]), uint64_t(i.args[1]), uint64_t(i.args[2]),
                       std::bit_cast<uint64_t>(i.value)})
      h = (h ^ x) * 0x9E3779B97F4A7C15ull + (h >> 31);
    return h;
  }

  // Instructions go out by section; arguments follow them to their new numbers.
  void number_instructions() {
    std::vector<uint16_t> to(all_.size());
    uint16_t next = 0;
    for (const auto& section : sections_)
      for (uint16_t i : section) to[i] = next++;
    out_.nest.insts.reserve(next);
    for (const auto& section : sections_)
      for (uint16_t i : section) {
        Inst inst = all_[i];
        for (int a = 0; a < operand_count(out_.nest, inst); ++a) inst.args[a] = to[inst.args[a]];
        out_.nest.insts.push_back(inst);
      }
  }

  const ir::Graph& graph_;
  const Terms& terms_;
  std::vector<bool> used_;
  std::vector<const Terms::Stored*> stores_;
  std::vector<uint32_t> reduces_;
  uint8_t deepest_ = 0, stage_ = 0;
  bool ordered_reduction_ = false, has_work_by_row_ = false;
  Dimensions dims_;
  Loops out_;
  std::vector<Inst> all_;
  std::vector<std::vector<uint16_t>> sections_;  // row, then element instructions of each stage
  std::unordered_multimap<uint64_t, uint16_t> shared_;
  std::unordered_map<uint64_t, uint16_t> written_, rounded_;
  std::unordered_map<uint32_t, uint16_t> reduce_insts_;
  std::map<ir::Value, uint16_t> numbers_;
  std::unordered_map<uint64_t, uint16_t> known_;  // by the number's bits
  std::map<std::tuple<ir::Value, FormId, bool, bool>, uint16_t> access_ids_;
};

}  // namespace

Loops make_loops(const ir::Graph& graph, const Terms& terms, const std::vector<bool>& needed) {
  return LoopWriter(graph, terms, needed).write();
}

ir::Size partial_points(const Loops& loops) {
  const size_t kept = loops.sizes.size() - loops.nest.reduced;
  if (loops.nest.accumulates()) return ir::product({loops.sizes.data() + kept, loops.nest.reduced});
  return ir::product({loops.sizes.data(), kept});
}

}  // namespace lazuli::lowering
