// oneDNN's matrix products.
#include "lowering/libraries/onednn_program.h"

namespace lazuli::lowering::onednn {
namespace {

struct Matmul {
  Descriptor a, b, out;
  Attributes attributes;
  dnnl::matmul::primitive_desc pd;
};

std::optional<Matmul> plan_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops,
                                  Inner b_layout) {
  if (!describable(a, 2) || !describable(b, 2) || !describable(out, out.shape.size())) return {};
  Matmul m{descriptor(a), descriptor(b), descriptor(out), attributes(ops, out.shape, 2), {}};
  try {
    const Descriptor inner_b = b_layout == Inner::Best ? any_layout(m.b) : m.b;
    m.pd = dnnl::matmul::primitive_desc(engine(), m.a, inner_b, m.out, m.attributes.attr, true);
  } catch (const dnnl::error&) {
    return {};
  }
  if (!fast(m.pd)) return {};
  return m;
}

std::unique_ptr<Program> run_matmul(Matmul& m, Value b) {
  auto program = std::make_unique<Program>();
  if (b.descriptor != m.pd.weights_desc()) {
    Value packed = program->scratch(m.pd.weights_desc());
    program->reorder(b, packed);
    b = packed;
  }
  auto args = m.attributes.args;
  args.emplace_back(DNNL_ARG_SRC, Value{Value::Operand, 0, m.a});
  args.emplace_back(DNNL_ARG_WEIGHTS, b);
  args.emplace_back(DNNL_ARG_DST, Value{Value::Result, 0, m.out});
  program->add(dnnl::matmul(m.pd), m.pd.scratchpad_desc(), args, m.pd.impl_info_str());
  return program;
}

// The same, its relu exact. `out` and `ops` are those of the plan.
std::unique_ptr<Program> run_exactly(Matmul& m, Value b, const Layout& out, std::span<const PostOp> ops) {
  auto program = run_matmul(m, b);
  watch_nan(*program, ops, out, [m, b, out, own = std::vector<PostOp>(ops.begin(), ops.end())](size_t kept) {
    Matmul plain{m.a, m.b, m.out, attributes(std::span(own).first(kept), out.shape, 2), {}};
    plain.pd = dnnl::matmul::primitive_desc(engine(), m.pd.src_desc(), m.pd.weights_desc(), m.pd.dst_desc(),
                                            plain.attributes.attr);
    return run_matmul(plain, b);
  });
  return program;
}

}  // namespace

std::unique_ptr<LibraryCall> matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops,
                                    Inner b_layout) {
  const OneThreadForLittle one(ir::product(out.shape) * a.shape.back());
  return finished(ops, out, [&](std::span<const PostOp> inside) -> std::unique_ptr<Program> {
    auto m = plan_matmul(a, b, out, inside, b_layout);
    return m ? run_exactly(*m, {Value::Operand, 1, m->b}, out, inside) : nullptr;
  });
}

PackedCall packed_matmul(const Layout& a, const Layout& b, const Layout& out, std::span<const PostOp> ops) {
  const OneThreadForLittle one(ir::product(out.shape) * a.shape.back());
  PackedCall p;
  auto call = finished(ops, out, [&](std::span<const PostOp> inside) -> std::unique_ptr<Program> {
    auto m = plan_matmul(a, b, out, inside, Inner::Best);
    if (!m) return nullptr;
    const Descriptor wanted = m->pd.weights_desc();
    p = packing(m->b, wanted);
    return p.pack ? run_exactly(*m, {Value::Operand, kPackedOperand, wanted}, out, inside) : nullptr;
  });
  p.call = std::move(call);
  return p;
}

}  // namespace lazuli::lowering::onednn
