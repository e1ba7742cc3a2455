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

anfora_require("threads, shared with oneDNN" TBB)
anfora_require("text formatting" fmt)
anfora_require("command line options" CLI11)
anfora_require("JSON" nlohmann_json)
anfora_require("compiled models in files" cereal)
anfora_require("linear algebra" Eigen3 3.4 NO_MODULE)
anfora_require("containers, 1.81 or newer" Boost 1.81)
anfora_require("oneDNN 3.2 or newer" dnnl 3.2 CONFIG)
if(ANFORA_TESTS)
  anfora_require("GoogleTest" GTest)
  anfora_require("property tests" rapidcheck CONFIG)
endif()
find_path(PROTOZERO_INCLUDE protozero/pbf_reader.hpp)
if(NOT PROTOZERO_INCLUDE)
  string(APPEND ANFORA_MISSING "  protozero: reads and writes ONNX files\n")
endif()

# anfora_require_library(TARGET WHAT HEADER LIBRARY): libraries whose packages come without a CMake file, or with one
# that names programs of other packages.
set(ANFORA_LIBRARIES "")
macro(anfora_require_library target what header library)
  find_path(${library}_INCLUDE ${header} PATH_SUFFIXES ${ARGN})
  find_library(${library}_LIBRARY ${library})
  if(NOT ${library}_INCLUDE OR NOT ${library}_LIBRARY)
    string(APPEND ANFORA_MISSING "  ${library}: ${what}\n")
  endif()
  list(APPEND ANFORA_LIBRARIES ${target} ${library})
endmacro()
anfora_require_library(libzip::libzip "reads and writes .npz files" zip.h zip)
anfora_require_library(re2::re2 "regular expressions of text operators" re2/re2.h re2)
anfora_require_library(turbojpeg::turbojpeg "decodes JPEG images" turbojpeg.h turbojpeg)
anfora_require_library(png::png "decodes PNG images" png.h png)
anfora_require_library(tiff::tiff "decodes TIFF images" tiffio.h tiff)
anfora_require_library(webp::webp "decodes WebP images" webp/decode.h webp)
if(ANFORA_TESTS)
  anfora_require_library(z3::z3 "proves rules (tests only)" z3++.h z3)
endif()
anfora_require_library(openjp2::openjp2 "decodes JPEG 2000 images" openjpeg.h openjp2 openjpeg-2.5 openjpeg-2.4)

# LLVM: static libraries, of which what generates code for x86-64 is linked. Debian's CMake file of it asks for more than that needs.
find_program(LLVM_CONFIG NAMES llvm-config-19)
if(NOT LLVM_CONFIG)
  string(APPEND ANFORA_MISSING "  LLVM 19: generates machine code\n")
endif()

# pip builds in a clone where nobody has run it yet.
if(ANFORA_MISSING AND SKBUILD AND NOT ANFORA_BOOTSTRAPPED)
  set(ANFORA_BOOTSTRAPPED ON)
  execute_process(COMMAND ${PROJECT_SOURCE_DIR}/scripts/bootstrap --program COMMAND_ERROR_IS_FATAL ANY)
  include(${CMAKE_CURRENT_LIST_FILE})
  return()
endif()
if(ANFORA_MISSING)
  message(FATAL_ERROR "Missing:\n${ANFORA_MISSING}Install it with the command\n  scripts/bootstrap\n")
endif()

add_library(protozero::protozero INTERFACE IMPORTED)
target_include_directories(protozero::protozero SYSTEM INTERFACE ${PROTOZERO_INCLUDE})
while(ANFORA_LIBRARIES)
  list(POP_FRONT ANFORA_LIBRARIES target library)
  add_library(${target} INTERFACE IMPORTED)
  target_link_libraries(${target} INTERFACE ${${library}_LIBRARY})
  if(NOT library STREQUAL openjp2)
    target_include_directories(${target} SYSTEM INTERFACE ${${library}_INCLUDE})
  endif()
endwhile()
execute_process(COMMAND ${LLVM_CONFIG} --includedir OUTPUT_VARIABLE llvm_include OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${LLVM_CONFIG} --link-static --libfiles x86codegen x86info x86desc core target mc object support
  OUTPUT_VARIABLE llvm_libraries OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(llvm_libraries)
add_library(llvm::x86 INTERFACE IMPORTED)
target_include_directories(llvm::x86 SYSTEM INTERFACE ${llvm_include})
# Its names are nobody else's business: a process may hold another LLVM.
target_link_libraries(llvm::x86 INTERFACE ${llvm_libraries} z zstd ${CMAKE_DL_LIBS} -Wl,--exclude-libs,ALL -Wl,--gc-sections)
# OpenJPEG's folder carries its version: only the one file that includes it sees it.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/kernels/reference/image_jpeg2000.cc
  PROPERTIES INCLUDE_DIRECTORIES ${openjp2_INCLUDE})
# Two libraries of the compiler that built the wheel lie beside it. They are its business alone: linked to, one of them
# would take the place of libm. DT_RPATH, other than DT_RUNPATH, also holds for what a library needs in turn.
get_target_property(dnnl_library DNNL::dnnl IMPORTED_LOCATION_RELEASE)
cmake_path(GET dnnl_library PARENT_PATH dnnl_folder)
file(GLOB dnnl_companions ${dnnl_folder}/libimf.so ${dnnl_folder}/libintlc.so.5)
if(dnnl_companions)
  set_property(TARGET DNNL::dnnl PROPERTY IMPORTED_LINK_DEPENDENT_LIBRARIES_RELEASE ${dnnl_companions})
  set_property(TARGET DNNL::dnnl APPEND PROPERTY INTERFACE_LINK_OPTIONS -Wl,--disable-new-dtags)
endif()
if(NOT TARGET dnnl::dnnl)
  add_library(dnnl::dnnl ALIAS DNNL::dnnl)
endif()
