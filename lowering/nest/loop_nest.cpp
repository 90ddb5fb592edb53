#include "lowering/nest/loop_nest.h"

#include <bit>
#include <sstream>

namespace lazuli::lowering {
namespace {

// Finalizer of MurmurHash3 (Appleby, public domain): every input bit reaches every output bit.
uint64_t mix(uint64_t h) {
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdULL;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ULL;
  return h ^ (h >> 33);
}
void absorb(uint64_t& h, uint64_t x) { h = mix(h ^ (x + 0x9e3779b97f4a7c15ULL + (h << 6))); }

uint64_t pack(std::initializer_list<unsigned> bytes) {
  uint64_t x = 0;
  for (unsigned b : bytes) x = x << 8 | b;
  return x;
}

const char* reduce_name(Reduce r) {
  constexpr const char* names[] = {"sum", "prod", "max", "min", "any", "all", "argmax", "argmin"};
  return names[static_cast<int>(r)];
}
const char* stride_name(VectorStride s) {
  constexpr const char* names[] = {"zero", "one", "any", "backward", "two"};
  return names[static_cast<int>(s)];
}

void print_access(std::ostream& out, size_t i, const Access& a) {
  out << "  a" << i << ": " << ir::name(a.dtype) << " stride " << stride_name(a.stride) << (a.row ? " row" : "")
      << (a.still ? " still" : "") << (a.indexed ? " indexed" : "") << (a.across ? " across" : "")
      << (a.store ? " store" : "");
  if (a.after != kAlone) out << " after a" << a.after;
  out << "\n";
}

void print_inst(std::ostream& out, const LoopNest& nest, size_t i) {
  const Inst& x = nest.insts[i];
  out << (x.row ? "  row  " : "  elem ") << "%" << i << ": " << ir::name(x.dtype) << " = ";
  auto args = [&](int n) {
    for (int k = 0; k < n; ++k) out << (k ? ", %" : " %") << x.args[k];
  };
  switch (x.code) {
    case Code::Prim:
      out << ir::info(x.prim).name;
      if (x.prim == ir::Prim::literal) out << " " << x.value;
      args(ir::info(x.prim).arity);
      break;
    case Code::Load:
      out << "load a" << x.slot;
      if (nest.accesses[x.slot].indexed) out << " at %" << x.args[0];
      break;
    case Code::Store:
      out << "store a" << x.slot << " %" << x.args[0];
      if (nest.accesses[x.slot].indexed) out << " at %" << x.args[1];
      break;
    case Code::Param:
      out << "param " << x.slot;
      break;
    case Code::Position:
      out << "position " << x.slot;
      break;
    case Code::Reduce:
      out << reduce_name(x.reduce);
      args(1);
      break;
    case Code::Accumulate:
      out << "accumulate a" << x.slot;
      args(1);
      break;
    case Code::Check:
      out << "check " << x.slot;
      args(1);
      break;
  }
  out << "\n";
}

template <class F>
void for_each_word(const LoopNest& n, F add) {
  add(pack({static_cast<unsigned>(n.schedule), n.rank, n.reduced, n.stages, n.tile}));
  add(uint64_t{n.row_bound} << 32 | uint64_t{n.checks} << 16 | n.params);
  add(n.accesses.size());
  for (const Access& a : n.accesses)
    add(uint64_t{a.after} << 48 | pack({static_cast<unsigned>(a.dtype), static_cast<unsigned>(a.stride),
                                        unsigned{a.row} | unsigned{a.still} << 1, a.store, a.indexed, a.across}));
  for (const Inst& x : n.insts) {
    add(pack({static_cast<unsigned>(x.code), static_cast<unsigned>(x.prim), static_cast<unsigned>(x.reduce),
              static_cast<unsigned>(x.dtype), x.stage, x.row}));
    add(uint64_t{x.slot} << 48 | uint64_t{x.args[0]} << 32 | uint64_t{x.args[1]} << 16 | x.args[2]);
    add(std::bit_cast<uint64_t>(x.value));
  }
}

}  // namespace

uint64_t LoopNest::hash() const {
  uint64_t h = 0;
  for_each_word(*this, [&](uint64_t word) { absorb(h, word); });
  return h;
}

std::vector<uint64_t> LoopNest::words() const {
  std::vector<uint64_t> all;
  for_each_word(*this, [&](uint64_t word) { all.push_back(word); });
  return all;
}

std::string LoopNest::print() const {
  std::ostringstream out;
  out.precision(17);
  out << "nest " << (schedule == Schedule::Row ? "row" : "column") << " rank " << int(rank) << " reduced "
      << int(reduced) << " params " << params;
  if (tiled()) out << " tile " << int(tile);
  if (row_bound) out << " rows of at most " << int(row_bound);
  if (checks) out << " checks " << checks;
  out << "\n";
  for (size_t i = 0; i < accesses.size(); ++i) print_access(out, i, accesses[i]);
  int stage = -1;
  for (size_t i = 0; i < insts.size(); ++i) {
    if (insts[i].stage != stage) out << "stage " << (stage = insts[i].stage) << "\n";
    print_inst(out, *this, i);
  }
  return out.str();
}

int operand_count(const LoopNest& nest, const Inst& x) {
  switch (x.code) {
    case Code::Prim:
      return ir::info(x.prim).arity;
    case Code::Load:
      return nest.accesses[x.slot].indexed ? 1 : 0;
    case Code::Store:
      return nest.accesses[x.slot].indexed ? 2 : 1;
    case Code::Reduce:
    case Code::Accumulate:
    case Code::Check:
      return 1;
    case Code::Param:
    case Code::Position:
      return 0;
  }
  return 0;
}

int64_t units(const LoopNest& nest, const int64_t* args) {
  if (nest.accumulates()) return 1;
  const int64_t* sizes = args + KernelArgsLayout(nest).sizes;
  const uint32_t vector_dim = nest.vector_dim();
  int64_t n = 1;
  for (uint32_t d = 0; d + nest.reduced < nest.rank; ++d)
    n *= nest.schedule == Schedule::Column && (d == vector_dim || d == nest.tile) ? (sizes[d] + args[0] - 1) / args[0]
                                                                                  : sizes[d];
  return n;
}

}  // namespace lazuli::lowering
