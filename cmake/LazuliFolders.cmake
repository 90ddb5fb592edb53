# lazuli_folder_library(<folder> [DEPENDS <library>...]) makes lazuli_<folder> from the folder's
# sources, and lets only the named files see LLVM, oneDNN and cuBLASLt. An empty folder is an empty library.

set(LAZULI_LLVM_SOURCES
  "/lowering/targets/" "/jit/kernels/compiler" "/jit/devices/cuda/ptx_compiler")
set(LAZULI_DNNL_SOURCES "/lowering/libraries/onednn[^/]*\\.cpp$")
set(LAZULI_CUBLASLT_SOURCES "/lowering/libraries/cuda/cublaslt\\.cpp$")

function(lazuli_matches variable source)
  set(${variable} FALSE PARENT_SCOPE)
  cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE relative)
  foreach(pattern IN LISTS ARGN)
    if("/${relative}" MATCHES "${pattern}")
      set(${variable} TRUE PARENT_SCOPE)
    endif()
  endforeach()
endfunction()

function(lazuli_private_includes)
  foreach(source IN LISTS ARGN)
    lazuli_matches(uses_llvm "${source}" ${LAZULI_LLVM_SOURCES})
    lazuli_matches(uses_dnnl "${source}" ${LAZULI_DNNL_SOURCES})
    lazuli_matches(uses_cublaslt "${source}" ${LAZULI_CUBLASLT_SOURCES})
    if(uses_llvm)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${LAZULI_LLVM_COMPILE_OPTIONS})
    endif()
    if(uses_dnnl)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${LAZULI_DNNL_COMPILE_OPTIONS})
    endif()
    if(uses_cublaslt)
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${LAZULI_CUBLASLT_COMPILE_OPTIONS})
    endif()
  endforeach()
endfunction()

function(lazuli_folder_library folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(target lazuli_${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.cpp")
  if(sources)
    add_library(${target} STATIC ${sources})
    target_link_libraries(${target} PUBLIC lazuli_flags ${ARG_DEPENDS})
    lazuli_private_includes(${sources})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE lazuli_flags ${ARG_DEPENDS})
  endif()
endfunction()

# The three torch-free libraries with what they link, for the plugin, the tools and the tests.
add_library(lazuli_core INTERFACE)
target_link_libraries(lazuli_core INTERFACE
  lazuli_jit lazuli_lowering lazuli_ir lazuli_llvm lazuli_dnnl)
