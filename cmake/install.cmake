# The installed package:
#   the component `runtime`   libanfora_runtime.so: the layers that run a compiled model, without the compiler; its headers; and the
#                             oneDNN library where the system has none
#   the rest                  libanfora.so, the compiler on top of it, and the program
# Everything finds everything by relative paths, so that the folder can be moved as a whole. examples/cpp and examples/c are built
# against it by tests/install.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

# anfora_add_library(TARGET NAME PART): libNAME.so of the layers of a part. What it exports are the names in include/anfora/, and for
# the other libraries of this version, as protected symbols, the names of RUNTIME layers (anfora_layer); all else is hidden
# (cmake/options.cmake), and what nobody uses of it is dropped.
function(anfora_add_library target name part)
  get_property(layers GLOBAL PROPERTY ANFORA_${part}_LAYERS)
  get_property(libraries GLOBAL PROPERTY ANFORA_${part}_LIBRARIES)
  list(TRANSFORM layers REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE objects)
  add_library(${target} SHARED ${objects})
  add_library(anfora::${name} ALIAS ${target})
  target_include_directories(${target} INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                                                 $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_features(${target} INTERFACE cxx_std_20)
  target_link_options(${target} PRIVATE -Wl,--gc-sections -Wl,--as-needed)
  if(NOT ANFORA_SANITIZE)  # whose own functions are in the program
    target_link_options(${target} PRIVATE -Wl,-z,defs)
  endif()
  target_link_libraries(${target} PRIVATE ${libraries} PUBLIC Boost::headers)
  set_target_properties(${target} PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
                                             INSTALL_RPATH "$ORIGIN")
endfunction()
anfora_add_library(anfora_runtime_library runtime RUNTIME)
# A wheel has no links: the file has the name that others look for.
set_target_properties(anfora_runtime_library PROPERTIES OUTPUT_NAME anfora_runtime EXPORT_NAME runtime
                                                        VERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
target_link_options(anfora_runtime_library PRIVATE
  -Wl,--version-script=${CMAKE_CURRENT_LIST_DIR}/runtime.exports)
set_target_properties(anfora_runtime_library PROPERTIES LINK_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/runtime.exports)
anfora_add_library(anfora anfora COMPILER)
target_link_libraries(anfora PUBLIC anfora_runtime_library PRIVATE fmt::fmt)
set_target_properties(anfora_cli PROPERTIES INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/anfora)
install(TARGETS anfora_runtime_library EXPORT anforaRuntimeTargets LIBRARY COMPONENT runtime)
install(TARGETS anfora EXPORT anforaTargets)
install(TARGETS anfora_cli)
# What a program that runs compiled models includes, and what it may besides.
set(runtime_headers cancellation dtype error executable kernel runtime tensor version)
list(TRANSFORM runtime_headers REPLACE "(.+)" "include/anfora/\\1.h")
install(FILES ${runtime_headers} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/anfora COMPONENT runtime)
install(FILES include/anfora/model.h include/anfora/operator.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/anfora)
install(FILES LICENSE TYPE DOC COMPONENT runtime)
install(EXPORT anforaRuntimeTargets NAMESPACE anfora:: DESTINATION ${package_dir} COMPONENT runtime)
install(EXPORT anforaTargets NAMESPACE anfora:: DESTINATION ${package_dir})

# A oneDNN of the project's own is installed too, with its licences.
if(dnnl_DIR MATCHES "^${PROJECT_SOURCE_DIR}/")
  install(FILES ${dnnl_library} TYPE LIB RENAME libdnnl.so.3 COMPONENT runtime)
  install(FILES ${dnnl_companions} TYPE LIB COMPONENT runtime)
  install(DIRECTORY ${dnnl_folder}/../share/doc/onednn TYPE DOC COMPONENT runtime)
endif()

cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}
           OUTPUT_VARIABLE relative_includedir)
# anfora_write_pkg_config(FILE LIBRARY DESCRIPTION COMPONENT)
function(anfora_write_pkg_config name library description component)
  configure_file(cmake/anfora.pc.in ${CMAKE_BINARY_DIR}/${name}.pc @ONLY)
  install(FILES ${CMAKE_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT ${component})
endfunction()
anfora_write_pkg_config(anfora-runtime "-lanfora_runtime" "Runs neural networks that Anfora compiled" runtime)
anfora_write_pkg_config(anfora "-lanfora -lanfora_runtime" "A graph compiler for neural networks" Unspecified)
configure_package_config_file(cmake/anforaConfig.cmake.in ${CMAKE_BINARY_DIR}/anforaConfig.cmake
                              INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/anforaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/anforaConfig.cmake ${CMAKE_BINARY_DIR}/anforaConfigVersion.cmake DESTINATION ${package_dir}
        COMPONENT runtime)
