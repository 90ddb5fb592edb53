# Compiles neighbours together. A file that includes torch's or LLVM's headers costs the compiler seconds before it
# reads a line of ours, so the files of a folder are compiled as a few units, each a generated file that includes
# them. Names in anonymous namespaces are therefore different within a folder. LAZULI_UNITS=OFF compiles each file
# alone: for clangd, or to see which headers a file forgot.

option(LAZULI_UNITS "Compile the files of a folder in units" ON)
set(LAZULI_UNIT_BYTES 40000) # of source; a larger one takes too long to compile after an edit

# Torch's header has to be told what the first defines before any other file includes it, and has two that cannot be
# included together. The last has a stand-in in the tests of GPUs.
set(LAZULI_ALONE
  "/backend/ops/onednn_lstm\\.cpp$" "/backend/torch_internals/vmap_of_func\\.cpp$"
  "/lowering/fusion/library_calls\\.cpp$")

# lazuli_units(<variable> <source>...) sets the variable to what to compile instead of the sources. What a source
# may include (see lazuli_may_include) its whole unit may, so that units are made of sources that may the same.
function(lazuli_units variable)
  if(NOT LAZULI_UNITS)
    foreach(source IN LISTS ARGN)
      lazuli_libraries_of(libraries "${source}")
      lazuli_may_include("${source}" "${libraries}")
    endforeach()
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  set(units "")
  set(kinds "")
  foreach(source IN LISTS ARGN)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY "${CMAKE_SOURCE_DIR}" OUTPUT_VARIABLE relative)
    lazuli_matches(alone "${source}" ${LAZULI_ALONE})
    if(alone)
      list(APPEND units "${source}")
      continue()
    endif()
    lazuli_libraries_of(libraries "${source}")
    cmake_path(GET relative PARENT_PATH folder)
    string(REPLACE "/" "_" kind "${folder}${libraries}")
    if(NOT kind IN_LIST kinds)
      list(APPEND kinds "${kind}")
      set(bytes_${kind} 0)
      set(number_${kind} 0)
    endif()
    file(SIZE "${source}" size)
    math(EXPR bytes_${kind} "${bytes_${kind}} + ${size}")
    if(bytes_${kind} GREATER LAZULI_UNIT_BYTES)
      math(EXPR number_${kind} "${number_${kind}} + 1")
      set(bytes_${kind} ${size})
    endif()
    string(APPEND text_${kind}_${number_${kind}} "#include \"${relative}\"\n")
    set(example_${kind} "${source}")
  endforeach()
  foreach(kind IN LISTS kinds)
    foreach(i RANGE ${number_${kind}})
      set(unit "${CMAKE_BINARY_DIR}/units/${kind}_${i}.cpp")
      file(CONFIGURE OUTPUT "${unit}" CONTENT "${text_${kind}_${i}}" @ONLY)
      lazuli_libraries_of(libraries "${example_${kind}}")
      lazuli_may_include("${unit}" "${libraries}")
      list(APPEND units "${unit}")
    endforeach()
  endforeach()
  set(${variable} ${units} PARENT_SCOPE)
endfunction()
