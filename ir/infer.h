// Result types of an application, through its row. Recording calls this for each new op: no allocation for ranks up
// to six.
#pragma once
#include "ir/graph.h"

namespace lazuli::ir {

// `results` holds the given types of leaves and external calls on entry, and every result's type on return. Absent
// operands are null. Throws TypeError with torch's wording where torch has one.
void infer(Op op, std::span<const Type* const> inputs, const Attrs& attrs, std::span<Type> results);

}  // namespace lazuli::ir
