// Max pooling's gradient from recorded positions alone, whatever windows they came from: a scatter-add into zeros.
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// gx[..., position] += gy for every element of gy; positions are flat in gx's last two dimensions. Operands: gy,
// positions (i64, dense); gx is dense.
std::unique_ptr<LibraryCall> make_max_pool_from_positions(const Layout& gy, const Layout& positions, const Layout& gx);

}  // namespace lazuli::lowering
