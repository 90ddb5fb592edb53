// Random numbers as values of a recording.
#pragma once
#include "backend/device/generator.h"
#include "lazy/record/recording.h"

namespace lazuli::backend {

// Of this shape, uniform in [0, 1), in the compute type of `type`, with as many bits as `type` holds.
ir::Value uniform(lazy::Recording& r, const ir::Dims& shape, ir::DType type, Generator& g);
// Uniform in (0, 1), at full precision. The smallest is not zero in `type` either.
ir::Value positive_uniform(lazy::Recording& r, const ir::Dims& shape, ir::DType type, Generator& g);
// Exponentially distributed, with mean 1 / rate, in the compute type of `type`.
ir::Value exponential(lazy::Recording& r, const ir::Dims& shape, ir::DType type, double rate, Generator& g);

}  // namespace lazuli::backend
