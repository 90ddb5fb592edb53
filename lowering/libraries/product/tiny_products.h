// Products of matrices of a few elements, most often many of them: rotations of points, steps of a Kalman filter. A
// library takes longer to begin such a product than to compute it.
#pragma once
#include <memory>
#include <span>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

// Whether each product multiplies at most 128 pairs of numbers, at most 8 for each sum, all of them float32 or all
// float64.
bool are_tiny_products(const Layout& a, const Layout& b, const Layout& out);

// a [..., m, k] times b [..., k, n], in any strides.
std::unique_ptr<LibraryCall> make_tiny_products(const Layout& a, const Layout& b, const Layout& out);

}  // namespace lazuli::lowering
