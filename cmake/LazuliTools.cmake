# The torch-free programs: lazuli-opt, the core tests and those of the GPU's libraries.

if(EXISTS "${CMAKE_SOURCE_DIR}/tools/lazuli_opt.cpp")
  add_executable(lazuli-opt "${CMAKE_SOURCE_DIR}/tools/lazuli_opt.cpp")
  target_link_libraries(lazuli-opt PRIVATE lazuli_core)
  set_target_properties(lazuli-opt PROPERTIES BUILD_RPATH "${LAZULI_DNNL_FOLDER}")
endif()

# Built when asked for (tools/bench libraries asks for the second, tools/bench decode for the third).
foreach(_program kernels_core libraries_core bandwidth_core)
  if(EXISTS "${CMAKE_SOURCE_DIR}/benchmarks/kernels/${_program}.cpp")
    add_executable(${_program} EXCLUDE_FROM_ALL "${CMAKE_SOURCE_DIR}/benchmarks/kernels/${_program}.cpp")
    target_link_libraries(${_program} PRIVATE lazuli_core)
    set_target_properties(${_program} PROPERTIES BUILD_RPATH "${LAZULI_DNNL_FOLDER}")
  endif()
endforeach()

if(LAZULI_TESTS)
  file(GLOB_RECURSE _tests CONFIGURE_DEPENDS
    "${CMAKE_SOURCE_DIR}/tests/ir/*.cpp"
    "${CMAKE_SOURCE_DIR}/tests/lowering/*.cpp"
    "${CMAKE_SOURCE_DIR}/tests/jit/*.cpp")
  if(_tests)
    find_package(GTest REQUIRED)
    # Only this generated file knows the checkout's path, so that the others are cached across checkouts.
    file(CONFIGURE OUTPUT test_root.cpp CONTENT
      "#include \"tests/support/test_root.h\"\nconst char* lazuli::test_root() { return \"@CMAKE_SOURCE_DIR@/tests\"; }\n" @ONLY)
    add_executable(lazuli_core_tests ${_tests} "${CMAKE_BINARY_DIR}/test_root.cpp")
    target_link_libraries(lazuli_core_tests PRIVATE lazuli_core GTest::gtest GTest::gtest_main)
    set_target_properties(lazuli_core_tests PROPERTIES BUILD_RPATH "${LAZULI_DNNL_FOLDER}")

    # Runs where there is a GPU, maybe on another machine: one file that needs little but the C library. It finds
    # cuBLASLt as the plugin does; torch's is in nvidia/cu13/lib, which LAZULI_CUDA_LIBRARIES may name.
    file(GLOB _matmul_tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/gpu/matmul/*.cpp")
    add_executable(lazuli_cublaslt_tests ${_matmul_tests})
    target_link_libraries(lazuli_cublaslt_tests PRIVATE lazuli_lowering lazuli_ir GTest::gtest)
    target_link_options(lazuli_cublaslt_tests PRIVATE -static-libstdc++ -static-libgcc)
  endif()

  # Apart from the others, so that it can be carried to a machine with a GPU and nothing else: it has a stand-in for the
  # libraries that plans call, and of shared libraries needs none beyond C's.
  file(GLOB _gpu_tests CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/tests/gpu/*.cpp")
  if(_gpu_tests)
    add_executable(lazuli_gpu_tests ${_gpu_tests})
    target_link_libraries(lazuli_gpu_tests PRIVATE
      lazuli_jit lazuli_lowering lazuli_ir lazuli_llvm GTest::gtest)
    target_link_options(lazuli_gpu_tests PRIVATE -static-libstdc++ -static-libgcc)
    set_property(SOURCE "${CMAKE_SOURCE_DIR}/tests/gpu/emulator.cpp" APPEND PROPERTY
      COMPILE_OPTIONS ${LAZULI_LLVM_COMPILE_OPTIONS})
  endif()
endif()
