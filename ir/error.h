// Two kinds of error. A TypeError is the user's: operands that do not fit. An InternalError is ours: it asks
// for a report.
#pragma once
#include <stdexcept>
#include <string>

namespace lazuli {

struct TypeError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct ParseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};
struct InternalError : std::logic_error {
  explicit InternalError(const std::string& what)
      : std::logic_error(what + " (this is a bug in Lazuli; please report it)") {}
};

}  // namespace lazuli

// Checks an invariant of ours in every build; the message is evaluated only on failure.
#define LAZULI_CHECK(condition, message)                                         \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      throw ::lazuli::InternalError(std::string(message) + " [" #condition "]"); \
  } while (0)
