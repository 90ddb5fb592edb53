// Which factory serves which row, and how a node's attributes become its arguments.
#pragma once
#include <memory>
#include <span>
#include "ir/graph.h"
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

bool takes_post_ops(ir::Op op);

// Prepares the call for `node`. Operands are laid out as the planner found them, results dense. Throws InternalError
// for a row that no library serves.
std::unique_ptr<LibraryCall> make_library_call(const ir::Node& node, std::span<const Layout> operands,
                                               std::span<const Layout> results, std::span<const PostOp> post_ops);

}  // namespace lazuli::lowering
