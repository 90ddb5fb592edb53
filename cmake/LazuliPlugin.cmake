# The shared libraries that torch loads. liblazuli_core.so is ir/, lowering/ and jit/ with LLVM, which know nothing of
# torch. liblazuli_torch_<version>.so is lazy/ and backend/, compiled once for each minor version of torch, and
# liblazuli_loader_<version>.so what `import torch` loads (backend/loader/). The Python package loads those of the
# torch that runs.
#
# They need libtorch_cpu, libc10 and oneDNN, and no Python. Torch finds the device through the registries that the
# second one fills.

# --- The core ------------------------------------------------------------------------------------
add_library(lazuli_core_shared SHARED "${CMAKE_SOURCE_DIR}/cmake/older_systems.cpp")
target_link_libraries(lazuli_core_shared
  PRIVATE lazuli_flags -Wl,--whole-archive "$<TARGET_FILE:lazuli_jit>" "$<TARGET_FILE:lazuli_lowering>"
    "$<TARGET_FILE:lazuli_ir>" -Wl,--no-whole-archive lazuli_llvm lazuli_dnnl)
# Conversions of float16 are functions of the compiler's library, by names that the shared one has since GCC 12.
execute_process(COMMAND "${CMAKE_CXX_COMPILER}" -print-libgcc-file-name
  OUTPUT_VARIABLE _libgcc OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
target_link_libraries(lazuli_core_shared PRIVATE "${_libgcc}")
add_dependencies(lazuli_core_shared lazuli_jit lazuli_lowering lazuli_ir)
set(_exports "${CMAKE_SOURCE_DIR}/cmake/exports.txt")
target_link_options(lazuli_core_shared PRIVATE
  -Wl,--version-script=${_exports} -Wl,-Bsymbolic -Wl,-z,defs)
set_target_properties(lazuli_core_shared PROPERTIES
  OUTPUT_NAME lazuli_core LINK_DEPENDS "${_exports}" BUILD_RPATH "${LAZULI_DNNL_FOLDER}")

# --- Torch's side, for one version of torch --------------------------------------------------------
file(GLOB_RECURSE _sources CONFIGURE_DEPENDS
  "${CMAKE_SOURCE_DIR}/lazy/*.cpp" "${CMAKE_SOURCE_DIR}/backend/*.cpp")
set(_loader_sources ${_sources})
# Torch's table of imported functions is changed by both: by the loader for what holds before the device is used.
list(FILTER _loader_sources INCLUDE REGEX "/backend/(loader/|torch_internals/imported_functions)")
list(FILTER _sources EXCLUDE REGEX "/backend/loader/")
lazuli_units(_units ${_sources})
add_custom_target(lazuli)

# What the libraries of one version of torch share.
function(lazuli_uses_torch target torch)
  target_link_libraries(${target} PRIVATE lazuli_flags "${torch}/lib/libtorch_cpu.so" "${torch}/lib/libc10.so")
  target_link_options(${target} PRIVATE -Wl,--exclude-libs,ALL -Wl,-z,defs)
  target_include_directories(${target} SYSTEM PRIVATE "${torch}/include" "${torch}/include/torch/csrc/api/include")
  target_compile_options(${target} PRIVATE -fvisibility=hidden)
  target_compile_definitions(${target} PRIVATE _GLIBCXX_USE_CXX11_ABI=1)
  set_target_properties(${target} PROPERTIES
    BUILD_RPATH "$ORIGIN;${torch}/lib" INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib")
  install(TARGETS ${target} LIBRARY DESTINATION torch_lazuli)
  add_dependencies(lazuli ${target})
endfunction()

function(lazuli_torch_library torch)
  lazuli_torch_version(version "${torch}")
  string(REGEX MATCH "^[0-9]+\\.[0-9]+" minor "${version}")
  set(target lazuli_torch_${minor})
  if(TARGET ${target})
    message(FATAL_ERROR "two environments have torch ${minor}")
  endif()
  message(STATUS "torch ${version} in ${torch}")

  add_library(lazuli_loader_${minor} SHARED ${_loader_sources})
  lazuli_uses_torch(lazuli_loader_${minor} "${torch}")
  add_library(${target} SHARED ${_units} "${CMAKE_SOURCE_DIR}/cmake/older_systems.cpp")
  lazuli_uses_torch(${target} "${torch}")
  target_link_libraries(${target} PRIVATE lazuli_core_shared lazuli_loader_${minor})
  target_precompile_headers(${target} PRIVATE
    <algorithm> <array> <cstdint> <functional> <memory> <mutex> <optional> <string> <tuple>
    <unordered_map> <utility> <vector>
    <ATen/ATen.h> <ATen/native/CPUFallback.h> <torch/library.h>)
endfunction()

lazuli_torch_library("${LAZULI_TORCH_FOLDER}")
foreach(_torch IN LISTS LAZULI_MORE_TORCHES)
  if(EXISTS "${_torch}/version.py")
    lazuli_torch_library("${_torch}")
  else()
    message(WARNING "there is no torch in ${_torch}: nothing is built for it")
  endif()
endforeach()

# In the wheel they lie beside the package: torch, and oneDNN in lib/ of the environment, are found from there.
set_target_properties(lazuli_core_shared PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../../..")
install(TARGETS lazuli_core_shared LIBRARY DESTINATION torch_lazuli)
