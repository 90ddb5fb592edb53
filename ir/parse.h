// Reads the text that print.h writes. Value names may be any numbers; blank lines and lines that start with `#` are
// skipped. Types are checked against the rows' shape rules.
#pragma once
#include <string_view>
#include "ir/graph.h"

namespace lazuli::ir {

// Throws ParseError, which names the line.
Graph parse(std::string_view text);

}  // namespace lazuli::ir
