// What shape rules share: raising the user's error, and printing shapes the way torch does.
#pragma once
#include <string>
#include "ir/error.h"
#include "ir/type.h"

namespace lazuli::ir {

// The message's parts are put together only on failure.
template <class... Parts>
[[noreturn, gnu::cold]] void type_error(const Parts&... parts) {
  std::string text;
  auto append = [&](const auto& part) {
    if constexpr (std::is_convertible_v<decltype(part), int64_t>)
      text += std::to_string(static_cast<int64_t>(part));
    else
      text += part;
  };
  (append(parts), ...);
  throw TypeError(text);
}

std::string list_text(SizeSpan v);  // "[2, 3]"
std::string size_text(SizeSpan v);  // "2x3"
// Dimensions as attributes name them: in range.
void check_dim(Size dim, Size rank);

}  // namespace lazuli::ir
