#include "jit/kernels/compiler_options.h"

#include <llvm/Support/CommandLine.h>

#include <mutex>
#include <string>

#include "ir/error.h"

namespace lazuli::jit {
namespace {

// Options of the code generator that only exist on its command line.
void set_option(const char* name, bool value) {
  auto& options = llvm::cl::getRegisteredOptions();
  auto found = options.find(name);
  LAZULI_CHECK(found != options.end(), std::string("LLVM has no option ") + name);
  // As if it were on the command line: some count only when somebody has said so.
  LAZULI_CHECK(!found->second->addOccurrence(0, name, value ? "true" : "false"),
               std::string("LLVM refuses option ") + name);
}

}  // namespace

// Loop strength reduction takes more than half of the time of code generation and finds nothing: the emitters' loops
// already step by pointers or by what x86 addresses for free. Instruction scheduling takes a tenth, and the processor
// (for a GPU, the assembler) does it again.
void leave_out_slow_passes() {
  static std::once_flag once;
  std::call_once(once, [] {
    set_option("disable-lsr", true);
    set_option("enable-misched", false);
  });
}

}  // namespace lazuli::jit
