#include "lazy/run/kept_images.h"

#include <algorithm>
#include <ATen/core/Tensor.h>
#include "lazy/memory/backing.h"
#include "lazy/memory/memory.h"
#include "lazy/memory/torch_buffers.h"
#include "lazy/support/plain_dispatch.h"
#include "lowering/fusion/layout_choice.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lazy {
namespace {

using lowering::ChannelsLast;
using lowering::is_image;

// Follows images through a trace, as layout_choice.h does through its plan.
class Images {
 public:
  Images(const Trace& trace, const lowering::Libraries& libraries)
      : trace_(trace), libraries_(libraries), is_one_(trace.value_count()) {
    for (const Entry& e : trace.entries()) visit(e);
  }
  bool operator[](ValueId v) const { return is_one_[v]; }

 private:
  void visit(const Entry& e) {
    if (e.results == 0 || e.operand_count == 0) return;
    const ir::OpInfo& row = ir::info(e.op);
    if (row.images && ir::is_contraction(e.op)) {
      if (!is_preferred(e)) return;
      if (e.op != ir::Op::convolution_weight_grad) mark(e.first_result);
      mark(trace_.operands(e)[0]);
    } else if (e.op == ir::Op::reshape) {
      leave_if_flat(e);
    } else if (row.images || row.kind == ir::Kind::Index ? reads_one(e) : reads_one_alike(e)) {
      mark(e.first_result);
    }
  }
  bool is_preferred(const Entry& e) const {
    ir::Node node{e.op, {}, {}, {trace_.cell(e.first_result)->type}};
    return libraries_.channels_last(node) >= ChannelsLast::Images;
  }
  void mark(ValueId v) {
    if (v != kAbsent && trace_.cell(v) && is_image(trace_.cell(v)->type)) is_one_[v] = true;
  }
  bool reads_one(const Entry& e) const {
    return std::ranges::any_of(trace_.operands(e), [&](ValueId v) { return v != kAbsent && is_one_[v]; });
  }
  // What is read as rows that hold all of an image, as a linear layer reads it, lies row-major.
  void leave_if_flat(const Entry& e) {
    const ValueId x = trace_.operands(e)[0];
    if (!is_one_[x]) return;
    const ir::Dims &image = trace_.cell(x)->type.shape, &shape = trace_.cell(e.first_result)->type.shape;
    is_one_[x] = shape.size() > 2 && shape[0] == image[0] && shape[1] == image[1];
  }
  // One of the shape of its result.
  bool reads_one_alike(const Entry& e) const {
    if (ir::is_view(e.op) || ir::is_contraction(e.op)) return false;
    return std::ranges::any_of(trace_.operands(e), [&](ValueId v) {
      return v != kAbsent && is_one_[v] && trace_.cell(v)->type.shape == trace_.cell(e.first_result)->type.shape;
    });
  }

  const Trace& trace_;
  const lowering::Libraries& libraries_;
  std::vector<bool> is_one_;  // by value
};

}  // namespace

std::vector<ValueId> images_to_keep(const Trace& trace, const std::vector<ValueId>& live,
                                    const lowering::Libraries& libraries) {
  const auto may_be = [&](ValueId v) { return is_image(trace.cell(v)->type) && !trace.cell(v)->is_read_outside; };
  if (std::ranges::none_of(live, may_be)) return {};
  const Images images(trace, libraries);
  std::vector<ValueId> kept;
  std::ranges::copy_if(live, std::back_inserter(kept), [&](ValueId v) { return images[v] && may_be(v); });
  return kept;
}

void make_row_major(Cell& image) {
  const PlainDispatch plain;
  const Cell& from = *image.channels_last;
  jit::Buffer memory = allocate_buffer(static_cast<size_t>(image.type.bytes()));
  tensor_over(memory, image.type).copy_(tensor_over(from.buffer, from.type).permute({0, 3, 1, 2}));
  if (backing().overlaps_host) backing().wait();  // what it was read from may be another stream's next
  image.buffer = std::move(memory);
  image.channels_last = CellRef();
}

}  // namespace lazuli::lazy
