# Finds what Lazuli is built from: LLVM (static), oneDNN, torch and CUDA's headers (from the Python
# environment), GoogleTest. Each becomes a target or a list of flags; which sources may use it is said in
# LazuliFolders.cmake and LazuliPlugin.cmake.

# --- The Python environment, which only says where torch and oneDNN are -----------------------
if(SKBUILD) # pip's build: for the torch of that environment, whatever was built before
  set(LAZULI_PYTHON "${Python_EXECUTABLE}" CACHE FILEPATH "" FORCE)
endif()
if(NOT LAZULI_PYTHON)
  if(EXISTS "${CMAKE_SOURCE_DIR}/.venv/bin/python")
    set(LAZULI_PYTHON "${CMAKE_SOURCE_DIR}/.venv/bin/python")
  else()
    find_program(LAZULI_PYTHON python3 REQUIRED)
  endif()
endif()
set(LAZULI_PYTHON "${LAZULI_PYTHON}" CACHE FILEPATH "Python whose environment has torch and oneDNN")

execute_process(
  COMMAND "${LAZULI_PYTHON}" "${CMAKE_SOURCE_DIR}/cmake/locate.py"
  OUTPUT_VARIABLE _located OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
foreach(_line IN LISTS _located)
  if(_line MATCHES "^([A-Z_]+)=(.*)$")
    set(LAZULI_${CMAKE_MATCH_1} "${CMAKE_MATCH_2}")
  endif()
endforeach()

# --- LLVM ----------------------------------------------------------------------------------------
set(LAZULI_LLVM_COMPONENTS
  orcjit passes x86codegen x86desc x86info x86asmparser nvptxcodegen nvptxdesc nvptxinfo)
find_program(LAZULI_LLVM_CONFIG NAMES llvm-config-19 PATHS /usr/lib/llvm-19/bin REQUIRED)
function(lazuli_llvm_config variable)
  execute_process(COMMAND "${LAZULI_LLVM_CONFIG}" ${ARGN}
    OUTPUT_VARIABLE output OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(output UNIX_COMMAND "${output}")
  set(${variable} "${output}" PARENT_SCOPE)
endfunction()
lazuli_llvm_config(LAZULI_LLVM_INCLUDE --includedir)
lazuli_llvm_config(_llvm_libraries --link-static --libfiles ${LAZULI_LLVM_COMPONENTS})
# Debian's LLVM is built without RTTI. A class derived from one of its own needs the same.
set(LAZULI_LLVM_COMPILE_OPTIONS -fno-rtti -isystem "${LAZULI_LLVM_INCLUDE}"
  -D_GNU_SOURCE -D__STDC_CONSTANT_MACROS -D__STDC_FORMAT_MACROS -D__STDC_LIMIT_MACROS)

add_library(lazuli_llvm INTERFACE)
target_link_libraries(lazuli_llvm INTERFACE
  -Wl,--start-group ${_llvm_libraries} -Wl,--end-group
  -Wl,-Bstatic -lz -lzstd -Wl,-Bdynamic -lrt -ldl -lm -lpthread)

# --- oneDNN --------------------------------------------------------------------------------------
if(NOT LAZULI_DNNL_LIBRARY OR NOT LAZULI_DNNL_INCLUDE)
  message(FATAL_ERROR "oneDNN was not found in the environment of ${LAZULI_PYTHON}: "
    "pip install onednn-cpu-gomp==2023.2.0 onednn-devel-cpu-gomp==2023.2.0")
endif()
set(LAZULI_DNNL_COMPILE_OPTIONS -isystem "${LAZULI_DNNL_INCLUDE}")
cmake_path(GET LAZULI_DNNL_LIBRARY PARENT_PATH LAZULI_DNNL_FOLDER)
add_library(lazuli_dnnl INTERFACE)
target_link_libraries(lazuli_dnnl INTERFACE "${LAZULI_DNNL_LIBRARY}")

# --- cuBLASLt: its headers only. The library is found when a GPU is first used ---------------------
if(NOT LAZULI_CUDA_INCLUDE OR NOT LAZULI_CUDA_CRT_INCLUDE)
  message(FATAL_ERROR "CUDA's headers were not found in the environment of ${LAZULI_PYTHON}: "
    "cublasLt.h comes with torch's nvidia-cublas, crt/host_defines.h with its triton")
endif()
set(LAZULI_CUBLASLT_COMPILE_OPTIONS
  -isystem "${LAZULI_CUDA_INCLUDE}" -isystem "${LAZULI_CUDA_CRT_INCLUDE}")

# --- torch ---------------------------------------------------------------------------------------
if(NOT LAZULI_CORE_ONLY)
  if(NOT LAZULI_TORCH_FOLDER)
    message(FATAL_ERROR "torch was not found in the environment of ${LAZULI_PYTHON}; "
      "without it only -DLAZULI_CORE_ONLY=ON can be built")
  endif()
  set(LAZULI_MORE_TORCHES "" CACHE STRING "Packages of torch to build for, too: .../site-packages/torch")
endif()

# Of a package of torch, without importing it.
function(lazuli_torch_version variable torch)
  file(STRINGS "${torch}/version.py" line REGEX "^__version__ = ")
  string(REGEX MATCH "[0-9]+\\.[0-9]+[^']*" version "${line}")
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()
