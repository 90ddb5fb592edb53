// The reference execution of a loop nest, one element at a time.
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "ir/error.h"
#include "ir/interpret/scalar.h"
#include "lowering/nest/loop_nest.h"

namespace lazuli::lowering {
namespace {
using ir::DType;

// A Reduce instruction's state within one kept point.
struct Accumulator {
  ir::Number value;
  int64_t position = 0;  // Arg*
  bool empty = true;
};

class Interpreter {
 public:
  Interpreter(const LoopNest& nest, const int64_t* args)
      : nest_(nest),
        layout_(nest),
        args_(args),
        index_(nest.rank),
        values_(nest.insts.size()),
        state_(nest.insts.size()) {}

  void unit(int64_t u) {
    if (!nest_.accumulates()) return unit_of_one(u);
    const int64_t *sizes = args_ + layout_.sizes, *end = sizes + nest_.rank - nest_.reduced;
    const int64_t points = std::accumulate(sizes, end, int64_t{1}, std::multiplies<>());
    for (first_point_ = true; u < points; ++u, first_point_ = false) unit_of_one(u);
  }

 private:
  void unit_of_one(int64_t u) {
    const uint32_t kept = nest_.rank - nest_.reduced, vector_dim = nest_.vector_dim();
    const bool column = nest_.schedule == Schedule::Column;
    int64_t first = 0;
    if (column) {
      const int64_t blocks = (size(vector_dim) + block() - 1) / block();
      first = u % blocks * block();
      u /= blocks;
    }
    for (uint32_t d = column ? vector_dim : kept; d-- > 0;) {
      const int64_t n = d == nest_.tile ? (size(d) + block() - 1) / block() : size(d);
      index_[d] = u % n;
      u /= n;
    }
    if (!column) return point();
    if (!nest_.tiled()) return lanes(first);
    const int64_t row = index_[nest_.tile] * block();
    for (int64_t r = row; r < std::min(row + block(), size(nest_.tile)); ++r) {
      index_[nest_.tile] = r;
      lanes(first);
    }
  }

  int64_t block() const { return args_[0]; }
  int64_t size(uint32_t d) const { return args_[layout_.sizes + d]; }

  void lanes(int64_t first) {
    for (int64_t i = first; i < std::min(first + block(), size(nest_.vector_dim())); ++i) {
      index_[nest_.vector_dim()] = i;
      point();
    }
  }

  void point() {
    size_t begin = 0;
    while (begin < nest_.insts.size()) {
      size_t end = begin, elements = begin;
      while (end < nest_.insts.size() && nest_.insts[end].stage == nest_.insts[begin].stage) ++end;
      while (elements < end && nest_.insts[elements].row) ++elements;
      for (size_t i = begin; i < elements; ++i) execute(i);
      if (elements < end) loop(elements, end);
      begin = end;
    }
  }

  void loop(size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i)
      if (nest_.insts[i].code == Code::Reduce) start(i);
    int64_t count = 1;
    for (uint32_t d = nest_.rank - nest_.reduced; d < nest_.rank; ++d) count *= size(d);
    for (int64_t e = 0; e < count; ++e) {
      int64_t rest = e;
      for (uint32_t d = nest_.rank; d-- > static_cast<uint32_t>(nest_.rank - nest_.reduced);) {
        index_[d] = rest % size(d);
        rest /= size(d);
      }
      for (size_t i = begin; i < end; ++i) nest_.insts[i].code == Code::Reduce ? accumulate(i, e) : execute(i);
    }
    for (size_t i = begin; i < end; ++i)
      if (nest_.insts[i].code == Code::Reduce) finish(i);
  }

  void execute(size_t i) {
    const Inst& x = nest_.insts[i];
    switch (x.code) {
      case Code::Prim:
        values_[i] = primitive(x);
        break;
      case Code::Load:
        values_[i] = ir::load_number(address(x, x.args[0]), nest_.accesses[x.slot].dtype);
        break;
      case Code::Store:
        ir::store_number(address(x, x.args[1]), nest_.accesses[x.slot].dtype, values_[x.args[0]]);
        break;
      case Code::Param: {
        int64_t bits = args_[layout_.params + x.slot];
        values_[i] = ir::is_floating(x.dtype) ? ir::literal_number(std::bit_cast<double>(bits), x.dtype)
                                              : ir::convert_number({0, bits}, DType::I64, x.dtype);
        break;
      }
      case Code::Position:
        values_[i] = {0, index_[x.slot]};
        break;
      case Code::Accumulate: {
        char* at = address(x, 0);
        const ir::Number sum[] = {ir::load_number(at, x.dtype), values_[x.args[0]]};
        ir::store_number(at, x.dtype, first_point_ ? sum[1] : ir::evaluate(ir::Prim::add, x.dtype, x.dtype, sum));
        break;
      }
      case Code::Check:
        if (values_[x.args[0]].i) reinterpret_cast<int64_t*>(args_[layout_.status])[x.slot] = 1;
        break;
      case Code::Reduce:
        throw InternalError("a reduction outside the element loop");
    }
  }

  ir::Number primitive(const Inst& x) const {
    if (x.prim == ir::Prim::literal) return ir::literal_number(x.value, x.dtype);
    ir::Number a[3];
    for (int k = 0; k < ir::info(x.prim).arity; ++k) a[k] = values_[x.args[k]];
    return ir::evaluate(x.prim, nest_.insts[x.args[0]].dtype, x.dtype, a);
  }

  char* address(const Inst& x, uint16_t index_inst) const {
    const Access& a = nest_.accesses[x.slot];
    int64_t offset = a.indexed ? values_[index_inst].i * args_[layout_.index_strides + x.slot] : 0;
    // Reduced dimensions do not move an access of the row; its strides there are not looked at.
    const uint32_t dims = a.row ? nest_.rank - nest_.reduced : nest_.rank;
    for (uint32_t d = 0; d < dims; ++d) {
      bool still = d == nest_.vector_dim() && a.stride == VectorStride::Zero;
      bool dense = (d == nest_.vector_dim() && a.stride == VectorStride::One) || (d == nest_.tile && a.across);
      offset += index_[d] * (still ? 0 : dense ? 1 : args_[layout_.strides + x.slot * nest_.rank + d]);
    }
    return reinterpret_cast<char*>(args_[layout_.pointers + x.slot]) + offset * ir::item_size(a.dtype);
  }

  void start(size_t i) {
    const Inst& x = nest_.insts[i];
    Accumulator& s = state_[i] = {};
    const bool floating = ir::is_floating(x.dtype);
    if (x.reduce == Reduce::Prod || x.reduce == Reduce::All) s.value = {1, 1};
    if (x.reduce == Reduce::Max) s.value = floating ? ir::Number{-INFINITY, 0} : ir::Number{0, extreme(x.dtype, false)};
    if (x.reduce == Reduce::Min) s.value = floating ? ir::Number{INFINITY, 0} : ir::Number{0, extreme(x.dtype, true)};
  }

  static int64_t extreme(DType t, bool largest) {
    if (!ir::is_signed(t)) return largest ? (t == DType::Bool ? 1 : 255) : 0;
    int64_t top = static_cast<int64_t>((uint64_t{1} << (ir::item_size(t) * 8 - 1)) - 1);
    return largest ? top : -top - 1;
  }

  void accumulate(size_t i, int64_t position) {
    const Inst& x = nest_.insts[i];
    Accumulator& s = state_[i];
    const DType from = nest_.insts[x.args[0]].dtype;
    if (x.reduce == Reduce::ArgMax || x.reduce == Reduce::ArgMin) {
      const ir::Number v = values_[x.args[0]];
      if (s.empty || better(v, s.value, from, x.reduce == Reduce::ArgMax)) s = {v, position, false};
      return;
    }
    const ir::Number operands[] = {s.value, ir::convert_number(values_[x.args[0]], from, x.dtype)};
    constexpr ir::Prim combine[] = {ir::Prim::add,     ir::Prim::mul,    ir::Prim::maximum,
                                    ir::Prim::minimum, ir::Prim::bit_or, ir::Prim::bit_and};
    s.value = ir::evaluate(combine[static_cast<int>(x.reduce)], x.dtype, x.dtype, operands);
  }

  // NaN beats every number, and nothing beats NaN.
  static bool better(ir::Number a, ir::Number b, DType t, bool larger) {
    if (!ir::is_floating(t)) return larger ? a.i > b.i : a.i < b.i;
    if (std::isnan(b.f)) return false;
    return std::isnan(a.f) || (larger ? a.f > b.f : a.f < b.f);
  }

  void finish(size_t i) {
    const Inst& x = nest_.insts[i];
    const bool positions = x.reduce == Reduce::ArgMax || x.reduce == Reduce::ArgMin;
    values_[i] = positions ? ir::Number{0, state_[i].position} : state_[i].value;
  }

  const LoopNest& nest_;
  KernelArgsLayout layout_;
  const int64_t* args_;
  std::vector<int64_t> index_;
  std::vector<ir::Number> values_;
  std::vector<Accumulator> state_;
  bool first_point_ = true;
};

}  // namespace

void interpret(const LoopNest& nest, const int64_t* args, int64_t begin, int64_t end) {
  Interpreter interpreter(nest, args);
  for (int64_t u = begin; u < end; ++u) interpreter.unit(u);
}

}  // namespace lazuli::lowering
