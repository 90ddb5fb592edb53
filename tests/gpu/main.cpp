// lazuli_gpu_tests: generated GPU kernels. Needs no GPU for what it can check without one, and nothing but the driver
// for the rest.   lazuli_gpu_tests --bandwidth       times the benchmark kernels instead.
//                 lazuli_gpu_tests --link FOLDER      makes machine code of the kernels there (link_folder.h).
#include <gtest/gtest.h>

#include <string_view>

#include "tests/gpu/bandwidth.h"
#include "tests/gpu/link_folder.h"

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  if (argc > 1 && std::string_view(argv[1]) == "--bandwidth") return lazuli::testing::print_bandwidth();
  if (argc > 2 && std::string_view(argv[1]) == "--link") return lazuli::testing::link_folder(argv[2]);
  return RUN_ALL_TESTS();
}
