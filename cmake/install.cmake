# The installed package: the program, libanfora.so with all layers but the command line, the public headers,
# and the oneDNN library where the system has none. Everything finds everything by relative paths, so that
# the folder can be moved as a whole. examples/cpp is built against it by tests/install.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# What the library exports are the names in include/anfora/; all else is hidden (cmake/options.cmake).
get_property(layer_targets GLOBAL PROPERTY ANFORA_LAYER_TARGETS)
get_property(layer_libraries GLOBAL PROPERTY ANFORA_LAYER_LIBRARIES)
list(TRANSFORM layer_targets REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE layer_objects)
add_library(anfora SHARED ${layer_objects})
add_library(anfora::anfora ALIAS anfora)
target_include_directories(anfora INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_compile_features(anfora INTERFACE cxx_std_20)
target_link_libraries(anfora PRIVATE ${layer_libraries} PUBLIC Boost::headers)
set_target_properties(anfora PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                        INSTALL_RPATH "$ORIGIN")
set_target_properties(anfora_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/anfora)
install(TARGETS anfora EXPORT anforaTargets)
install(TARGETS anfora_cli)
install(DIRECTORY include/anfora TYPE INCLUDE)
install(FILES LICENSE TYPE DOC)
install(EXPORT anforaTargets NAMESPACE anfora:: DESTINATION ${package_dir})

# A oneDNN of the project's own is installed too, with its licences.
if(dnnl_DIR MATCHES "^${PROJECT_SOURCE_DIR}/")
  install(FILES ${dnnl_library} TYPE LIB RENAME libdnnl.so.3)
  install(FILES ${dnnl_companions} TYPE LIB)
  install(DIRECTORY ${dnnl_folder}/../share/doc/onednn TYPE DOC)
endif()

cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}
           OUTPUT_VARIABLE relative_includedir)
configure_file(cmake/anfora.pc.in ${CMAKE_BINARY_DIR}/anfora.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/anfora.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
configure_package_config_file(cmake/anforaConfig.cmake.in ${CMAKE_BINARY_DIR}/anforaConfig.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/anforaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/anforaConfig.cmake ${CMAKE_BINARY_DIR}/anforaConfigVersion.cmake DESTINATION ${package_dir})
