// Speed of the kernels that should run at the speed of memory, beside that of a copy on the device.
#pragma once

namespace lazuli::testing {

int print_bandwidth();

}  // namespace lazuli::testing
