# Compiler settings that every target shares. Targets take them by linking lazuli_flags.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1 -DNDEBUG")
set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g -D_GLIBCXX_ASSERTIONS")

set_property(GLOBAL PROPERTY JOB_POOLS "compile=${LAZULI_COMPILE_JOBS}" link=1)
set(CMAKE_JOB_POOL_COMPILE compile)
set(CMAKE_JOB_POOL_PRECOMPILE_HEADER compile)
set(CMAKE_JOB_POOL_LINK link)

file(RELATIVE_PATH _up "${CMAKE_BINARY_DIR}" "${CMAKE_SOURCE_DIR}")
string(REGEX REPLACE "/$" "" _up "${_up}")

add_library(lazuli_flags INTERFACE)
target_include_directories(lazuli_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_definitions(lazuli_flags INTERFACE
  $<$<BOOL:${LAZULI_VERIFY}>:LAZULI_VERIFY=1>
  "LAZULI_VERSION=\"${PROJECT_VERSION}\"")
target_compile_options(lazuli_flags INTERFACE
  -fvisibility-inlines-hidden
  -ffunction-sections -fdata-sections
  # No -ftls-model=initial-exec: it would bind torch's and libstdc++'s thread-locals statically too,
  # and the library then fails to load. Thread-locals of ours take [[gnu::tls_model]] one by one.
  -fopenmp
  # __FILE__ and debug information are relative to the repository, however the path was spelled.
  "-ffile-prefix-map=${CMAKE_SOURCE_DIR}/=" "-ffile-prefix-map=${_up}/="
  -Wall -Wextra)
target_link_options(lazuli_flags INTERFACE -fopenmp -Wl,--gc-sections -Wl,--build-id=sha1)

if(LAZULI_SANITIZE)
  target_compile_options(lazuli_flags INTERFACE
    -fsanitize=${LAZULI_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # GCC 12 takes the address of a function for a value it cannot know where these are checked, which
    # breaks the constexpr op table. The address sanitizer finds null pointers as well.
    -fno-sanitize=null,nonnull-attribute,returns-nonnull-attribute)
  target_link_options(lazuli_flags INTERFACE -fsanitize=${LAZULI_SANITIZE})
endif()

# LLVM's static libraries take GNU ld about ten seconds for each binary, and lld one.
find_program(LAZULI_LLD ld.lld PATHS /usr/lib/llvm-19/bin)
if(LAZULI_LLD)
  cmake_path(GET LAZULI_LLD PARENT_PATH _lld_folder)
  target_link_options(lazuli_flags INTERFACE -B${_lld_folder} -fuse-ld=lld)
endif()

# Results are shared by every checkout on the machine (base_dir, hash_dir off), and objects that
# were compiled with a precompiled header are cached too (the sloppiness, -fpch-preprocess).
find_program(LAZULI_CCACHE ccache)
if(LAZULI_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER
    "${CMAKE_COMMAND}" -E env
    "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}" CCACHE_NOHASHDIR=true
    "CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime"
    "${LAZULI_CCACHE}")
  target_compile_options(lazuli_flags INTERFACE -fpch-preprocess)
endif()
