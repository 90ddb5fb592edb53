#include "backend/torch_internals/engine_warnings.h"

#include <utility>

namespace lazuli::backend {
namespace {

using torch::autograd::utils::DelayWarningHandler;

// An explicit instantiation may name a private member: this makes a function that anybody may call.
template <auto Member>
struct Expose {
  friend auto& warnings_of(DelayWarningHandler& h) { return h.*Member; }
};
auto& warnings_of(DelayWarningHandler& h);
template struct Expose<&DelayWarningHandler::warnings_>;

}  // namespace

std::vector<c10::Warning> take_warnings(DelayWarningHandler& from) { return std::exchange(warnings_of(from), {}); }

}  // namespace lazuli::backend
