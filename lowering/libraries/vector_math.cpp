#include "lowering/libraries/vector_math.h"

namespace lazuli::lowering {

const ExpBounds<float> kExpBoundsF32{-104, 89, 20};
const ExpBounds<double> kExpBoundsF64{-746, 710, 40};

}  // namespace lazuli::lowering
