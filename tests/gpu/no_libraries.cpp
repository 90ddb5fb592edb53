// A stand-in for the CPU's libraries, so that the binary needs no oneDNN: its graphs have no contractions.
#include "ir/error.h"
#include "lowering/fusion/library_calls.h"

namespace lazuli::lowering {
namespace {

class NoLibraries final : public Libraries {
 public:
  bool serves(const ir::Node&) const override { return true; }
  bool takes(const ir::Node&, std::span<const PostOp>) const override { return false; }
  std::unique_ptr<LibraryCall> make(const ir::Node&, std::span<const Layout>, std::span<const Layout>,
                                    std::span<const PostOp>) const override {
    throw InternalError("this binary has no libraries");
  }
};

}  // namespace

const Libraries& cpu_libraries(Effort) {
  static const NoLibraries libraries;
  return libraries;
}

}  // namespace lazuli::lowering
