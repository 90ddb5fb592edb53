// Wraps a call whose operands or result need another layout or element type than the planner's: copies in, calls,
// applies what post-ops the call left over, copies out.
#pragma once
#include <memory>
#include <optional>
#include <span>
#include <vector>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

struct Staging {
  struct Copy {
    Layout from, to;  // for operands: the caller's layout and the call's; for the result: the call's and the caller's
  };
  std::vector<std::optional<Copy>> operands;  // by operand number; missing ones pass through
  std::optional<Copy> result;
  std::vector<PostOp> post_ops;    // after the call, in the result's own place
  Layout result_layout;            // where post_ops work
  size_t post_op_operands_at = 0;  // number of the first operand that post_ops read
  bool empty() const;
};

// `call` itself when there is nothing to do.
std::unique_ptr<LibraryCall> make_staged_call(std::unique_ptr<LibraryCall> call, Staging staging);

// Fills the result with what `post_ops` make of zero: a sum of no products. Operand `first` is the first post-op's.
std::unique_ptr<LibraryCall> make_zero_call(const Layout& out, std::span<const PostOp> post_ops, size_t first);

}  // namespace lazuli::lowering
