// The tests, or with --bench the measurements.
#include <cstdio>
#include <cstring>
#include <exception>
#include <gtest/gtest.h>
#include "tests/gpu/matmul/device.h"

namespace lazuli::lowering {
int bench_cublaslt();
}

int main(int argc, char** argv) {
  using lazuli::testing::Device;
  ::testing::InitGoogleTest(&argc, argv);
  std::printf("%s\n", Device::get() ? Device::get()->name().c_str() : ("no GPU: " + Device::why_not()).c_str());
  if (argc < 2 || std::strcmp(argv[1], "--bench") != 0) return RUN_ALL_TESTS();
  try {
    return lazuli::lowering::bench_cublaslt();
  } catch (const std::exception& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
