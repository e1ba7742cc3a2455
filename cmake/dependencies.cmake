# Everything comes from the system or from the folder that scripts/bootstrap fills; nothing is downloaded here.
# What is missing is collected, so that one message names all of it and the one command that installs it.
set(ANFORA_MISSING "")

# anfora_require(WHAT PACKAGE [arguments of find_package…])
macro(anfora_require what package)
  find_package(${package} QUIET ${ARGN})
  if(NOT ${package}_FOUND)
    string(APPEND ANFORA_MISSING "  ${package}: ${what}\n")
  endif()
endmacro()

# oneDNN: the wheel that scripts/bootstrap unpacks, or an installed one.
list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/build/deps/onednn)

anfora_require("OpenMP of this compiler" OpenMP)
anfora_require("text formatting" fmt)
anfora_require("command line options" CLI11)
anfora_require("JSON" nlohmann_json)
anfora_require("containers, 1.81 or newer" Boost 1.81)
anfora_require("oneDNN 3.2 or newer" dnnl 3.2 CONFIG)
if(ANFORA_TESTS)
  anfora_require("GoogleTest" GTest)
endif()
find_path(PROTOZERO_INCLUDE protozero/pbf_reader.hpp)
if(NOT PROTOZERO_INCLUDE)
  string(APPEND ANFORA_MISSING "  protozero: reads and writes ONNX files\n")
endif()

# Debian's libzip package names programs of other packages in its CMake file, so the library is found by hand.
find_path(LIBZIP_INCLUDE zip.h)
find_library(LIBZIP_LIBRARY zip)
if(NOT LIBZIP_INCLUDE OR NOT LIBZIP_LIBRARY)
  string(APPEND ANFORA_MISSING "  libzip: reads and writes .npz files\n")
endif()

# Debian's RE2 comes without a CMake file.
find_path(RE2_INCLUDE re2/re2.h)
find_library(RE2_LIBRARY re2)
if(NOT RE2_INCLUDE OR NOT RE2_LIBRARY)
  string(APPEND ANFORA_MISSING "  re2: regular expressions of text operators\n")
endif()

if(ANFORA_MISSING)
  message(FATAL_ERROR "Missing:\n${ANFORA_MISSING}Install it with the command\n  scripts/bootstrap\n")
endif()

add_library(protozero::protozero INTERFACE IMPORTED)
target_include_directories(protozero::protozero SYSTEM INTERFACE ${PROTOZERO_INCLUDE})
add_library(libzip::libzip INTERFACE IMPORTED)
target_include_directories(libzip::libzip SYSTEM INTERFACE ${LIBZIP_INCLUDE})
target_link_libraries(libzip::libzip INTERFACE ${LIBZIP_LIBRARY})
add_library(re2::re2 INTERFACE IMPORTED)
target_include_directories(re2::re2 SYSTEM INTERFACE ${RE2_INCLUDE})
target_link_libraries(re2::re2 INTERFACE ${RE2_LIBRARY})
if(NOT TARGET dnnl::dnnl)
  add_library(dnnl::dnnl ALIAS DNNL::dnnl)
endif()
