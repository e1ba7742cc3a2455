# Everything comes from the system or from the folder that scripts/bootstrap fills; nothing is downloaded here.
find_package(OpenMP REQUIRED)
find_package(fmt REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED)

find_path(PROTOZERO_INCLUDE protozero/pbf_reader.hpp REQUIRED)
add_library(protozero::protozero INTERFACE IMPORTED)
target_include_directories(protozero::protozero INTERFACE ${PROTOZERO_INCLUDE})

# oneDNN: the wheel that scripts/bootstrap unpacks, or an installed one.
list(APPEND CMAKE_PREFIX_PATH ${PROJECT_SOURCE_DIR}/build/deps/onednn)
find_package(dnnl 3.2 REQUIRED CONFIG)
if(NOT TARGET dnnl::dnnl)
  add_library(dnnl::dnnl ALIAS DNNL::dnnl)
endif()
