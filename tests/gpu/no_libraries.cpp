// In place of the libraries that plans call, oneDNN above all: the cases here are kernels only.
#include "ir/error.h"
#include "lowering/library_calls.h"

namespace lazuli::lowering {

bool takes_post_ops(ir::Op) { return false; }

std::unique_ptr<LibraryCall> make_library_call(const ir::Node&, std::span<const Layout>, std::span<const Layout>,
                                               std::span<const PostOp>) {
  throw InternalError("this program has no libraries");
}

}  // namespace lazuli::lowering
