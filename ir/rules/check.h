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
    if constexpr (std::is_integral_v<std::decay_t<decltype(part)>>)
      text += std::to_string(part);
    else
      text += part;
  };
  (append(parts), ...);
  throw TypeError(text);
}

std::string list_text(std::span<const int64_t> v);  // "[2, 3]"
std::string size_text(std::span<const int64_t> v);  // "2x3"
// Dimensions as attributes name them: in range.
void check_dim(int64_t dim, int64_t rank);

}  // namespace lazuli::ir
