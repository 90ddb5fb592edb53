// The triangles of matrices: what lies beyond a diagonal becomes zero.
#include "backend/record/dispatch.h"
#include "backend/record/operands.h"
#include "backend/record/registration.h"

namespace lazuli::backend {
namespace {

using at::Tensor;

enum class Part : uint8_t { Lower, Upper };
constexpr const char* name(Part part) { return part == Part::Lower ? "aten::tril" : "aten::triu"; }
constexpr const char* name_in_place(Part part) { return part == Part::Lower ? "aten::tril_" : "aten::triu_"; }

bool is_covered(const Tensor& x) { return is_ours(x) && x.dim() >= 2; }

ir::Value positions(lazy::Recording& r, int64_t count, std::initializer_list<int64_t> shape) {
  ir::Value iota = r.emit(ir::Op::iota, std::span<const ir::Value>(), ir::Attrs{{count}});
  return r.reshape(iota, std::span(shape.begin(), shape.size()));
}

// Column minus row is the number of the diagonal.
ir::Value triangle(lazy::Recording& r, const Tensor& x, int64_t diagonal, Part part) {
  const int64_t rows = x.size(-2), columns = x.size(-1);
  ir::Value of = r.sub(positions(r, columns, {1, columns}), positions(r, rows, {rows, 1}));
  ir::Value limit = r.number(diagonal, ir::DType::I64);
  ir::Value kept = r.emit(part == Part::Lower ? ir::Op::le : ir::Op::ge, {of, limit});
  return r.emit(ir::Op::where, {kept, r.value(x), r.constant(0, lazy::to_ir(x.scalar_type()))});
}

template <Part part>
Tensor fresh(const Tensor& x, int64_t diagonal) {
  if (!is_covered(x)) return fall_back<Tensor>(name(part), "", x, diagonal);
  lazy::Recording r;
  return r.tensor(triangle(r, x, diagonal, part), x.scalar_type());
}
template <Part part>
Tensor& in_place(Tensor& x, int64_t diagonal) {
  if (!is_covered(x) || overlaps_itself(x)) return fall_back<Tensor>(name_in_place(part), "", x, diagonal), x;
  lazy::Recording r;
  r.write(x, triangle(r, x, diagonal, part));
  return x;
}

}  // namespace

void register_triangles(torch::Library& m) {
  m.impl("tril", fresh<Part::Lower>);
  m.impl("tril_", in_place<Part::Lower>);
  m.impl("triu", fresh<Part::Upper>);
  m.impl("triu_", in_place<Part::Upper>);
}

}  // namespace lazuli::backend
