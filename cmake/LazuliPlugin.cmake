# liblazuli.so: lazy/ and backend/ with the core linked in. It needs libtorch_cpu, libc10 and
# oneDNN, no Python, and exports nothing: torch finds it through the registries that it fills.

file(GLOB_RECURSE _sources CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/lazy/*.cpp" "${CMAKE_SOURCE_DIR}/backend/*.cpp")
if(NOT _sources)
  return()
endif()

lazuli_units(_units ${_sources})
add_library(lazuli SHARED ${_units})
target_link_libraries(lazuli PRIVATE lazuli_flags lazuli_core lazuli_torch)
target_link_options(lazuli PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
target_precompile_headers(lazuli PRIVATE
  <algorithm> <array> <cstdint> <functional> <memory> <mutex> <optional> <string> <tuple>
  <unordered_map> <utility> <vector>
  <ATen/ATen.h> <ATen/native/CPUFallback.h> <torch/library.h>)

# In the wheel: beside the package; torch and oneDNN (lib/ of the environment) are found from there.
set_target_properties(lazuli PROPERTIES
  BUILD_RPATH "$ORIGIN;${LAZULI_DNNL_FOLDER};${LAZULI_TORCH_FOLDER}/lib"
  INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib;$ORIGIN/../../..")
install(TARGETS lazuli LIBRARY DESTINATION torch_lazuli)

# The package reads this before it loads the library: another torch has other class layouts.
file(CONFIGURE OUTPUT liblazuli.json CONTENT "{\"torch\": \"@LAZULI_TORCH_VERSION@\"}\n" @ONLY)
install(FILES "${CMAKE_BINARY_DIR}/liblazuli.json" DESTINATION torch_lazuli)
