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

# Which of LLVM, DNNL and CUBLASLT a source may include, each with an underscore before it.
function(lazuli_libraries_of variable source)
  set(libraries "")
  foreach(library LLVM DNNL CUBLASLT)
    lazuli_matches(uses "${source}" ${LAZULI_${library}_SOURCES})
    if(uses)
      string(APPEND libraries "_${library}")
    endif()
  endforeach()
  set(${variable} "${libraries}" PARENT_SCOPE)
endfunction()

# Lets a file that is compiled include libraries, named as above.
function(lazuli_may_include source libraries)
  foreach(library LLVM DNNL CUBLASLT)
    if(libraries MATCHES "_${library}")
      set_property(SOURCE "${source}" APPEND PROPERTY COMPILE_OPTIONS ${LAZULI_${library}_COMPILE_OPTIONS})
    endif()
  endforeach()
endfunction()

function(lazuli_folder_library folder)
  cmake_parse_arguments(ARG "" "" "DEPENDS" ${ARGN})
  set(target lazuli_${folder})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*.cpp")
  if(sources)
    lazuli_units(units ${sources})
    add_library(${target} STATIC ${units})
    target_link_libraries(${target} PUBLIC lazuli_flags ${ARG_DEPENDS})
    # For the shared library, which other libraries link: its list of exports says what it shows (LazuliPlugin.cmake).
    target_compile_options(${target} PRIVATE -fno-semantic-interposition)
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE lazuli_flags ${ARG_DEPENDS})
  endif()
endfunction()

# The three torch-free libraries with what they link, for the plugin, the tools and the tests.
add_library(lazuli_core INTERFACE)
target_link_libraries(lazuli_core INTERFACE
  lazuli_jit lazuli_lowering lazuli_ir lazuli_llvm lazuli_dnnl)
