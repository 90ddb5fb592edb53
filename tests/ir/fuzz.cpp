#include "tests/ir/fuzz.h"
#include <cmath>
#include <cstdlib>
#include <random>
#include "ir/builder.h"
#include "ir/error.h"
#include "tests/ir/support.h"

namespace lazuli::ir::testing {
namespace {

class Fuzzer {
 public:
  explicit Fuzzer(const FuzzOptions& options) : options_(options), random_(options.seed), b_(graph_) {}

  Graph run() {
    if (options_.exact) {
      const Dims shape = random_shape();  // of several, so that they meet
      for (int i = 0; i < 6; ++i) add_input(pick_type(), chance(2) ? shape : random_shape());
    } else {
      for (int i = 0; i < 4; ++i) add_input(pick_float(), random_shape());
      add_input(DType::I64, random_shape());
      add_input(DType::Bool, random_shape());
    }
    inputs_ = random_inputs(graph_, options_.seed);
    for (int tries = 0; applied_ < options_.nodes && tries < options_.nodes * 20; ++tries) step();
    // Half of what was computed last comes out, so that much of the graph is live and some is not.
    for (size_t i = pool_.size(); i-- > pool_.size() * 3 / 4;)
      if (chance(2)) graph_.outputs.push_back(pool_[i]);
    if (graph_.outputs.empty()) graph_.outputs.push_back(pool_.back());
    return std::move(graph_);
  }

 private:
  int64_t below(int64_t n) { return n > 0 ? static_cast<int64_t>(random_() % static_cast<uint64_t>(n)) : 0; }
  bool chance(int n) { return below(n) == 0; }
  // Half of the time a late one, so that graphs grow deep and rows of a kind meet.
  Value any() {
    auto size = static_cast<int64_t>(pool_.size());
    return pool_[static_cast<size_t>(chance(2) ? size - 1 - below(std::min<int64_t>(size, 4)) : below(size))];
  }
  DType pick_float() { return options_.narrow && chance(6) ? DType::BF16 : DType::F32; }
  DType pick_type() { return static_cast<DType>(below(static_cast<int64_t>(DType::F64) + 1)); }

  Dims random_shape() {
    static constexpr int64_t kSizes[] = {1, 2, 3, 4, 6};
    Dims shape;
    for (int64_t rank = below(4); rank >= 0; --rank) shape.push_back(kSizes[below(5)]);
    if (options_.exact && chance(12)) shape[static_cast<size_t>(below(static_cast<int64_t>(shape.size())))] = 0;
    if (options_.exact && chance(12)) shape.clear();
    return shape;
  }
  void add_input(DType dtype, const Dims& shape) { pool_.push_back(b_.input({dtype, shape})); }

  // A value of this element type whose shape broadcasts with `shape`, or none.
  Value compatible(DType dtype, const Dims& shape) {
    for (int tries = 0; tries < 12; ++tries) {
      Value v = any();
      if (b_.dtype(v) != dtype) continue;
      try {
        if (product(broadcast_shapes(b_.shape(v), shape)) <= 512) return v;
      } catch (const TypeError&) {}
    }
    if (options_.exact && chance(2)) return converted(any(), dtype);
    return chance(2) ? number(dtype) : Value{};
  }

  Value number(DType dtype) {
    if (!options_.exact || is_floating(dtype)) return b_.constant(static_cast<double>(below(11)) / 2 - 2, dtype);
    return b_.constant(static_cast<double>(dtype == DType::Bool ? below(2)
                                           : dtype == DType::U8 ? below(9)
                                                                : below(11) - 2),
                       dtype);
  }

  // The value in another element type, if that is defined: floats that do not fit have no integer.
  Value converted(Value x, DType to) {
    evaluate();
    const Tensor& t = values_[x.node][x.result];
    if (is_floating(t.type.dtype) && is_integral(to)) {
      const double bits = static_cast<double>(8 * item_size(to) - (to == DType::U8 ? 0 : 1));
      for (int64_t i = 0; i < t.type.numel(); ++i) {
        const double whole = std::trunc(t.at(i));
        if (!(whole < std::ldexp(1, static_cast<int>(bits)) &&
              whole >= (to == DType::U8 ? 0 : -std::ldexp(1, static_cast<int>(bits)))))
          return {};
      }
    }
    return b_.emit(Op::convert, {x}, Attrs().add(static_cast<int64_t>(to)));
  }

  Value of_rank(int64_t rank, DType dtype) {
    for (int tries = 0; tries < 20; ++tries)
      if (Value v = any(); b_.type(v).rank() == rank && b_.dtype(v) == dtype) return v;
    return {};
  }

  bool jumps(const OpInfo& row) const {
    static constexpr std::string_view kRounding[] = {"floor", "ceil",      "round", "trunc",        "frac",
                                                     "sign",  "remainder", "fmod",  "floor_divide", "trunc_divide"};
    bool rounds = std::ranges::find(kRounding, row.name) != std::end(kRounding);
    bool position = row.combine == Combine::ArgMax || row.combine == Combine::ArgMin;
    return row.result == Result::Bool || rounds || position;
  }

  void step() {
    static constexpr Kind kKinds[] = {Kind::Elementwise, Kind::Elementwise, Kind::Elementwise,
                                      Kind::View,        Kind::View,        Kind::Reduction,
                                      Kind::Index,       Kind::Contraction, Kind::Composite};
    Kind kind = kKinds[below(std::size(kKinds))];
    Op op;
    do op = static_cast<Op>(below(kOpCount));
    while (info(op).kind != kind);
    if (options_.exact && chance(6)) op = Op::convert;
    const OpInfo& row = info(op);
    if (!options_.discrete && jumps(row)) return;
    Value v;
    try {
      switch (row.kind) {
        case Kind::Elementwise:
          v = elementwise(op, row);
          break;
        case Kind::Reduction:
          v = reduction(op);
          break;
        case Kind::View:
          v = view(op);
          break;
        case Kind::Index:
          v = index(op);
          break;
        case Kind::Contraction:
          v = options_.contractions ? contraction(op) : v;
          break;
        case Kind::Composite:
          v = options_.composites ? composite(op, row) : v;
          break;
        default:
          break;
      }
    } catch (const TypeError&) {
      return;  // operands that do not fit: try another
    }
    if (!v) return;
    evaluate();
    ++applied_;
    auto results = static_cast<uint32_t>(graph_.nodes[v.node].types.size());
    for (uint32_t r = 0; r < results; ++r) {
      const Tensor& t = values_[v.node][r];
      if (options_.exact ? is_exact(v.node, r) : t.type.numel() > 0 && (is_tame(t) || chance(20)))
        pool_.push_back({v.node, r});
    }
  }

  // Whether nothing was rounded but by a conversion, which is the same in any order: in float64 the node gives the
  // same, and that needs no more digits than float32 has.
  bool is_exact(uint32_t id, uint32_t result) {
    const Tensor& t = values_[id][result];
    if (!is_tame(t) || graph_.nodes[id].op == Op::convert) return is_tame(t);
    auto wide = [](DType d) { return is_floating(d) ? DType::F64 : d; };
    Node n = graph_.nodes[id];
    for (Type& type : n.types) type.dtype = wide(type.dtype);
    std::vector<Tensor> operands(n.inputs.size());
    std::vector<const Tensor*> present(n.inputs.size());
    for (size_t k = 0; k < n.inputs.size(); ++k) {
      if (!n.inputs[k]) continue;
      const Tensor& from = values_[n.inputs[k].node][n.inputs[k].result];
      operands[k] = Tensor(Type{wide(from.type.dtype), from.type.shape});
      for (int64_t i = 0; i < from.type.numel(); ++i) operands[k].set(i, from.at(i));
      present[k] = &operands[k];
    }
    const Tensor in_f64 = interpret_node(n, present)[result];
    for (int64_t i = 0; i < t.type.numel(); ++i)
      if (t.at(i) != in_f64.at(i) || static_cast<double>(static_cast<float>(t.at(i))) != t.at(i)) return false;
    return true;
  }

  // The values of nodes that are new.
  void evaluate() {
    while (values_.size() < graph_.nodes.size()) {
      const Node& n = graph_.nodes[values_.size()];
      std::vector<const Tensor*> operands;
      for (Value v : n.inputs) operands.push_back(v ? &values_[v.node][v.result] : nullptr);
      values_.push_back(n.op == Op::input ? std::vector{inputs_[n.attrs.number(0)]} : interpret_node(n, operands));
    }
  }

  static bool is_tame(const Tensor& t) {
    for (int64_t i = 0; i < t.type.numel(); ++i)
      if (!(std::abs(t.at(i)) < 1e4)) return false;
    return true;
  }

  Value elementwise(Op op, const OpInfo& row) {
    Value first = any();
    std::vector<Value> operands;
    DType dtype = b_.dtype(first);
    if (op == Op::random_uniform || op == Op::require || (!options_.discrete && op == Op::convert)) return {};
    if (op == Op::where) {
      operands.push_back(compatible(DType::Bool, b_.shape(first)));
      if (!operands[0]) return {};
    }
    operands.push_back(first);
    Dims shape = b_.shape(first);
    while (static_cast<int>(operands.size()) < row.arity) {
      Value v = compatible(dtype, shape);
      if (!v) return {};
      shape = broadcast_shapes(shape, b_.shape(v));
      operands.push_back(v);
    }
    if (op == Op::convert && options_.exact) return converted(first, pick_type());
    static constexpr DType kTargets[] = {DType::F32, DType::BF16, DType::I32, DType::I64, DType::Bool, DType::F64};
    Attrs attrs;
    if (op == Op::convert) {
      // Floats that do not fit have no defined integer.
      DType to = is_floating(dtype) ? (chance(2) ? DType::F32 : pick_float()) : kTargets[below(6)];
      attrs.add(static_cast<int64_t>(to));
    }
    return b_.emit(op, operands, attrs);
  }

  Value reduction(Op op) {
    Value x = any();
    Combine c = info(op).combine;
    bool one = c == Combine::ArgMax || c == Combine::ArgMin;
    Dims dims;
    for (int64_t d = 0; d < b_.type(x).rank(); ++d)
      if (one ? dims.empty() : chance(2)) dims.push_back(d);
    if (dims.empty()) return {};
    return b_.emit(op, {x}, Attrs().add(dims).add(below(2)));
  }

  Dims regrouped(int64_t numel) {
    Dims shape;
    while (numel > 1 && shape.size() < 3) {
      int64_t divisor = 1;
      for (int64_t n : {2, 3, 4, 6})
        if (numel % n == 0 && chance(2)) divisor = n;
      shape.push_back(divisor);
      numel /= divisor;
    }
    shape.push_back(numel);
    return shape;
  }

  Value view(Op op) {
    Value x = any();
    const Type t = b_.type(x);
    Dims order;
    for (int64_t d = 0; d < t.rank(); ++d) order.push_back(d);
    std::shuffle(order.begin(), order.end(), random_);
    Dims starts, sizes, steps;
    for (int64_t n : t.shape) {
      starts.push_back(chance(2) ? below(n) : 0);
      steps.push_back(chance(3) ? 2 : 1);
      int64_t most = n ? (n - starts.back() - 1) / steps.back() + 1 : Size(0);
      sizes.push_back(chance(3) ? std::min(1 + below(most), most) : most);
    }
    Dims strides = contiguous_strides(t.shape);
    int64_t offset = 0;
    for (size_t d = 0; d < starts.size(); ++d) offset += starts[d] * strides[d];
    if (op == Op::reshape) return b_.reshape(x, regrouped(t.numel()));
    if (op == Op::permute) return b_.permute(x, order);
    if (op == Op::slice) return b_.emit(op, {x}, Attrs().add(starts).add(sizes).add(steps));
    if (op == Op::flip) return t.rank() ? b_.emit(op, {x}, Attrs{{below(t.rank())}}) : Value{};
    if (op == Op::as_strided) {
      Dims shape, moved;
      for (int64_t d : order) {
        shape.push_back(sizes[d]);
        moved.push_back(strides[d] * steps[d]);
      }
      if (chance(3)) shape.push_back(2), moved.push_back(0);
      return b_.emit(op, {x}, Attrs().add(shape).add(moved).add(offset));
    }
    if (op != Op::broadcast) return {};
    Dims target = t.shape;
    for (Size& n : target) n = n == 1 ? Size(3) : n;
    if (chance(2)) target.insert(0, 2);
    return product(target) <= 512 ? b_.broadcast(x, target) : Value{};
  }

  // i64 positions below `size`, of this shape.
  Value positions(const Dims& shape, int64_t size) {
    Value count = b_.reshape(b_.emit(Op::iota, std::span<const Value>(), Attrs{{product(shape)}}), shape);
    Value spread = b_.add(b_.mul(count, static_cast<double>(1 + below(5))), static_cast<double>(below(7)));
    return b_.emit(Op::remainder, {spread, b_.constant(static_cast<double>(size), DType::I64)});
  }

  Value index(Op op) {
    Value x = any();
    const Type t = b_.type(x);
    if (t.rank() == 0) return {};
    int64_t dim = below(t.rank());
    if (t.shape[dim] == 0 && op != Op::cat && op != Op::pad) return {};  // no position is below its size
    Attrs attrs{{dim}};
    if (op == Op::cat) return b_.emit(op, {x, x, any()}, attrs);
    if (op == Op::pad) {
      Dims low, high;
      for (int64_t n : t.shape) low.push_back(below(3) - (n > 2)), high.push_back(below(2));
      if (options_.exact) return b_.emit(op, {x, number(t.dtype)}, Attrs().add(low).add(high));
      return b_.emit(op, {x, b_.constant(1, t.dtype)}, Attrs().add(low).add(high));
    }
    if (op == Op::index_select) return b_.emit(op, {x, positions({2, 2}, t.shape[dim])}, attrs);
    if (op == Op::gather) return b_.emit(op, {x, positions(t.shape, t.shape[dim])}, attrs);
    if (op == Op::scatter_add) return b_.emit(op, {x, positions(t.shape, t.shape[dim]), x}, attrs);
    if (op == Op::index_add || op == Op::index_copy)
      return b_.emit(op, {x, positions({t.shape[dim]}, t.shape[dim]), x}, attrs);
    if (op != Op::as_strided_scatter || t.numel() == 0) return {};
    Value row = b_.emit(Op::as_strided, {x}, Attrs().add(t.shape.back()).add(1).add(0));
    return b_.emit(op, {x, b_.neg(row)}, Attrs{{1}, {t.numel() - t.shape.back()}});
  }

  Value contraction(Op op) {
    Value x = of_rank(2 + below(2), options_.exact ? pick_type() : DType::F32);
    if (op != Op::matmul || !x || b_.dtype(x) == DType::Bool) return {};  // torch has no product of bools
    return b_.emit(op, {x, b_.transpose(x)});
  }

  Value composite(Op op, const OpInfo& row) {
    Value x = any();
    const Type t = b_.type(x);
    if (!is_floating(t.dtype) || t.rank() < 1) return {};
    bool along_dim = row.attrs[0] == "dim";
    if (along_dim && row.arity == 1) return b_.emit(op, {x}, Attrs{{below(t.rank())}});
    if (op == Op::mean) return b_.emit(op, {x}, Attrs{{t.rank() - 1}, {below(2)}});
    Value eps = b_.constant(0.125, DType::F32);
    if (op == Op::layer_norm) return b_.emit(op, {x, Value{}, Value{}, eps}, Attrs{{1}});
    if (op == Op::batch_norm && t.rank() >= 2 && t.numel() > t.shape[1])
      return b_.emit(op, {x, Value{}, Value{}, eps}, Attrs{{below(2)}});
    return {};
  }

  FuzzOptions options_;
  std::mt19937 random_;
  Graph graph_;
  GraphBuilder b_;
  std::vector<Value> pool_;
  std::vector<Tensor> inputs_;
  std::vector<std::vector<Tensor>> values_;  // by node
  int applied_ = 0;
};

}  // namespace

Graph random_graph(const FuzzOptions& options) { return Fuzzer(options).run(); }

std::vector<Tensor> random_inputs(const Graph& graph, uint32_t seed) {
  std::mt19937 generator(seed);
  std::vector<Tensor> inputs;
  for (const Type& t : input_types(graph))
    inputs.push_back(t.dtype == DType::U8     ? random_tensor(t, generator, 0, 4)
                     : t.dtype == DType::Bool ? random_tensor(t, generator, 0, 2)
                                              : random_tensor(t, generator));
  return inputs;
}

uint32_t seeds(uint32_t usual) {
  const char* n = std::getenv("LAZULI_FUZZ_SEEDS");
  return n ? static_cast<uint32_t>(std::atoi(n)) : usual;
}

}  // namespace lazuli::ir::testing
