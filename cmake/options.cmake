set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
# The library exports what the public headers declare: they open their namespace with default visibility.
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

option(ANFORA_TESTS "Build the tests" ON)
option(ANFORA_UNITY "Compile the sources of a layer in groups: a third of the time from nothing, more after an edit" OFF)
set(ANFORA_SANITIZE "" CACHE STRING "Sanitizers: address,undefined, or thread")
option(ANFORA_PYTHON_PACKAGE "Build the Python package's extension module" OFF)
option(ANFORA_FUZZ "Build the fuzzers (Clang)" OFF)
set(ANFORA_ARCH "x86-64-v3" CACHE STRING "Baseline instruction set (-march); oneDNN picks its own at run time")

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")

# Contraction would make a result depend on which operations the compiler happened to fuse.
add_compile_options(-march=${ANFORA_ARCH} -ffp-contract=off)
# A CPU below that gets a message instead of an illegal instruction, by code that runs on any.
set(ANFORA_BASELINE_CHECK ${PROJECT_SOURCE_DIR}/src/support/cpu_baseline.cc)
set_source_files_properties(${ANFORA_BASELINE_CHECK} PROPERTIES COMPILE_OPTIONS -march=x86-64 SKIP_UNITY_BUILD_INCLUSION ON)
if(ANFORA_ARCH MATCHES "^x86-64-v[234]$")
  set_source_files_properties(${ANFORA_BASELINE_CHECK} PROPERTIES COMPILE_DEFINITIONS ANFORA_BASELINE="${ANFORA_ARCH}")
endif()
if(ANFORA_SANITIZE)
  add_compile_options(-fsanitize=${ANFORA_SANITIZE} -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${ANFORA_SANITIZE})
endif()

if(ANFORA_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  add_link_options(-fuse-ld=mold)
endif()

add_library(anfora_warnings INTERFACE)
# A designated initializer that leaves the other members at their defaults is what it is for.
target_compile_options(anfora_warnings INTERFACE -Wall -Wextra -Werror -Wno-missing-field-initializers)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12's flow analysis reports overreads inside moves of small vectors that cannot happen.
  target_compile_options(anfora_warnings INTERFACE
    -Wno-stringop-overread -Wno-stringop-overflow -Wno-array-bounds -Wno-maybe-uninitialized -Wno-restrict)
  if(ANFORA_UNITY)
    # In a group GCC takes a file's unnamed namespace for a header's.
    target_compile_options(anfora_warnings INTERFACE -Wno-subobject-linkage)
  endif()
else()
  # Clang reports loops marked `omp simd` that it does not vectorize; the mark permits, it does not demand. Nor
  # is it the project's affair that libstdc++ 12 sorts stably by something that C++17 deprecates.
  target_compile_options(anfora_warnings INTERFACE -Wno-pass-failed -Wno-deprecated-declarations)
endif()
