// Writes at run-time positions: scatter, scatter-add and index-add. No sorting and no atomics: threads divide the
// destination, and each walks the entries in order, so results do not depend on the number of threads. Sums of 16
// bits are made in float32 where there are at least as many entries as destinations, and then rounded once.
//
// An index outside [0, size) makes run() throw with torch's message, and an IndexError where torch does, before
// anything is written. (torch wraps negative ones in index_put only, which normalizes them first.)
#pragma once
#include <memory>
#include "lowering/libraries/library.h"

namespace lazuli::lowering {

enum class ScatterMode : uint8_t { Assign, Add };  // Assign: of equal destinations the last entry wins

// out = base, then out[..., index[p], ...] = or += src[p] for every position p of `index`, whose shape may be smaller
// than src's and, outside `dim`, than out's. Operands: base, index (i64 or i32), src; base's memory may be the
// result's. A base of strides 0 is a fill.
std::unique_ptr<LibraryCall> make_scatter(const Layout& base, const Layout& index, const Layout& src, const Layout& out,
                                          int64_t dim, ScatterMode mode);

// out = base, then out.select(dim, index[i]) += (or =) src.select(dim, i) for each entry i of `index` flattened. src
// has base's shape with dimension `dim` replaced by the index's dimensions, or by their product. Operands: as above.
std::unique_ptr<LibraryCall> make_index_add(const Layout& base, const Layout& index, const Layout& src,
                                            const Layout& out, int64_t dim, ScatterMode mode = ScatterMode::Add);

}  // namespace lazuli::lowering
