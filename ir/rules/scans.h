// What derivatives of running products are made of, and those of whole products.
#pragma once
#include "ir/builder.h"

namespace lazuli::ir {

// x's elements each one further along dim, behind `first`; the last is dropped.
Value moved_by_one(Builder& b, Value x, Size dim, double first);

}  // namespace lazuli::ir
