// Which calls serve a target's contractions, windows and scatters, and how a node's attributes become their arguments.
#pragma once
#include <memory>
#include <span>
#include "ir/graph.h"
#include "lowering/libraries/onednn.h"

namespace lazuli::lowering {

// Of a call with images for operands and results: whether they may be channels-last in memory, or had better be, with
// or without the weights that it reads or makes the gradient of.
enum class ChannelsLast : uint8_t { Never, Either, Images, ImagesAndWeights };

class Libraries {
 public:
  virtual ~Libraries() = default;
  // Whether make() has a call for `node`, whatever its sizes; else the host's eager kernel computes it.
  virtual bool serves(const ir::Node& node) const = 0;
  // Whether the call for `node`, a contraction, can do these post-ops on its result, in this order.
  virtual bool takes(const ir::Node& node, std::span<const PostOp> post_ops) const = 0;
  // Whether the call for `node` can read an operand laid out so; if not, the operand is copied to dense memory first.
  virtual bool reads(const ir::Node&, const Layout&) const { return true; }
  virtual ChannelsLast channels_last(const ir::Node&) const { return ChannelsLast::Never; }
  // Whether the call for `node` leaves a result out that nobody reads, whose pointer is null then.
  virtual bool may_leave_out(const ir::Node&, uint32_t /*result*/) const { return false; }
  // Whether the call for `node` reads its first operand only to copy it, and copies nothing where the result has that
  // operand's memory.
  virtual bool begins_with_a_copy(const ir::Node&) const { return false; }
  // What sizes of a large product should be multiples of, or it is slow (align_products.h).
  virtual int64_t good_multiple(const ir::Node&) const { return 1; }
  // Whether a product of a few rows with a matrix that is computed is faster as a kernel of sums.
  virtual bool sums_few_rows() const { return false; }
  // Of attention that a program writes out, how many bytes of scores are computed at a time (query_blocks.h); 0: all.
  virtual int64_t bytes_of_scores() const { return 0; }
  // Whether there is a call for int_mm.
  virtual bool multiply_bytes() const { return false; }
  // Prepares the call for `node`. Operands are laid out as the planner found them, results dense: row-major, or
  // channels-last where channels_last() lets them.
  virtual std::unique_ptr<LibraryCall> make(const ir::Node& node, std::span<const Layout> operands,
                                            std::span<const Layout> results,
                                            std::span<const PostOp> post_ops) const = 0;
  // The call with operand kPackedOperand packed, where that may be worth keeping; `pack` is null where it is not.
  virtual PackedCall make_packed(const ir::Node&, std::span<const Layout>, std::span<const Layout>,
                                 std::span<const PostOp>) const {
    return {};
  }
};

// oneDNN, a BLAS where the process has one, and our own routines. They serve every row that needs a call.
const Libraries& cpu_libraries(Effort effort = Effort::Much);

}  // namespace lazuli::lowering
