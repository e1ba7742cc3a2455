# Layers: a layer is one or more folders of src/, one static library, and the layers that it may include.
# The calls of anfora_layer() in CMakeLists.txt are the only table of them: anfora_write_layers() writes it
# out for the test that checks the includes (tests/layers/check_layers.py).

# anfora_collect_sources(TARGET FOLDER…): every .cc of src/FOLDER (not below it).
function(anfora_collect_sources target)
  foreach(folder ${ARGN})
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.cc)
    target_sources(${target} PRIVATE ${sources})
  endforeach()
endfunction()

# anfora_group_sources(TARGET): with ANFORA_UNITY its sources are compiled some at a time, which instantiates what they
# have in common once. Names in their unnamed namespaces therefore differ within a layer.
function(anfora_group_sources target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ${ANFORA_UNITY} UNITY_BUILD_BATCH_SIZE 12)
endfunction()

# anfora_layer(NAME [RUNTIME] [PROGRAM target] [SOURCES folder…] [DEPENDS layer…] [LINK library…])
# The static library anfora_NAME. With PROGRAM, main.cc is an executable of that target name, and the rest the library TARGET_parts.
# With RUNTIME it is a part of libanfora_runtime (install.cmake): what it defines is protected, which the libraries of the compiler may
# link to, and nobody may replace. Of public headers, whose visibility is default, the linker's table tells it apart.
function(anfora_layer name)
  cmake_parse_arguments(layer "RUNTIME" "PROGRAM" "SOURCES;DEPENDS;LINK" ${ARGN})
  if(NOT layer_SOURCES)
    set(layer_SOURCES ${name})
  endif()
  set_property(GLOBAL APPEND_STRING PROPERTY ANFORA_LAYERS "${name} | ${layer_SOURCES} | ${layer_DEPENDS}\n")

  if(layer_PROGRAM)
    set(target ${layer_PROGRAM}_parts)
    add_library(${target} STATIC)
  else()
    set(target anfora_${name})
    add_library(${target} STATIC)
    set(library COMPILER)
    if(layer_RUNTIME)
      set(library RUNTIME)
      set_target_properties(${target} PROPERTIES CXX_VISIBILITY_PRESET protected)
    endif()
    set_property(GLOBAL APPEND PROPERTY ANFORA_${library}_LAYERS ${target})
    set_property(GLOBAL APPEND PROPERTY ANFORA_${library}_LIBRARIES ${layer_LINK})
  endif()
  anfora_collect_sources(${target} ${layer_SOURCES})
  anfora_group_sources(${target})
  target_include_directories(${target} PUBLIC ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
  list(TRANSFORM layer_DEPENDS PREPEND anfora_)
  target_link_libraries(${target} PUBLIC ${layer_DEPENDS} ${layer_LINK} PRIVATE anfora_warnings)
  if(layer_PROGRAM)
    set(main ${PROJECT_SOURCE_DIR}/src/${name}/main.cc)
    get_target_property(parts ${target} SOURCES)
    list(REMOVE_ITEM parts ${main})
    set_target_properties(${target} PROPERTIES SOURCES "${parts}")
    add_executable(${layer_PROGRAM} ${main})
    target_link_libraries(${layer_PROGRAM} PRIVATE ${target} anfora_warnings)
  endif()
endfunction()

# anfora_write_layers(FILE): a line a layer, "name | its folders | the layers it may include".
function(anfora_write_layers file)
  get_property(layers GLOBAL PROPERTY ANFORA_LAYERS)
  file(CONFIGURE OUTPUT ${file} CONTENT "${layers}" @ONLY)
endfunction()

# anfora_embed_files(LAYER HEADER FUNCTION TYPE FOLDER FILE…): the texts of the files become part of that layer's library, as what
# FUNCTION of HEADER gives: a span of TYPE, each a name and a text. Both are named from the namespace anfora on; FOLDER is where they
# come from, for the comment on top.
function(anfora_embed_files layer header function type folder)
  set(script ${PROJECT_SOURCE_DIR}/cmake/embed_texts.cmake)
  string(REGEX REPLACE "::" "_" name ${function})
  set(output ${PROJECT_BINARY_DIR}/${name}.cc)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -P ${script} ${output} ${header} ${function} ${type} ${folder} ${ARGN}
    DEPENDS ${ARGN} ${script} VERBATIM)
  target_sources(anfora_${layer} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# anfora_embed_texts(LAYER HEADER FUNCTION TYPE FOLDER ENDING [FILE…]): all FOLDER/*.ENDING, and other files.
function(anfora_embed_texts layer header function type folder ending)
  file(GLOB texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.${ending})
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/)
  anfora_embed_files(${layer} ${header} ${function} ${type} ${folder} ${texts} ${ARGN})
endfunction()

# anfora_hash_sources(LAYER HEADER FUNCTION VERSION FILE…): FUNCTION of HEADER gives a hash of VERSION and of the files, as they are when
# the layer's library is built.
function(anfora_hash_sources layer header function version)
  set(script ${PROJECT_SOURCE_DIR}/cmake/hash_sources.cmake)
  string(REGEX REPLACE "::" "_" name ${function})
  set(output ${PROJECT_BINARY_DIR}/${name}.cc)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -P ${script} ${output} ${header} ${function} ${version} ${ARGN}
    DEPENDS ${ARGN} ${script} VERBATIM)
  target_sources(anfora_${layer} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# anfora_compile_rules(LAYER FOLDER): all FOLDER/*.rules as data, which becomes part of that layer's library.
function(anfora_compile_rules layer folder)
  file(GLOB rules CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.rules)
  set(output ${PROJECT_BINARY_DIR}/compiled_rules.cc)
  add_executable(compile_rules ${PROJECT_SOURCE_DIR}/tools/compile_rules.cc)
  target_link_libraries(compile_rules PRIVATE anfora_rewrite anfora_warnings)
  add_custom_command(OUTPUT ${output} COMMAND compile_rules ${output} ${rules} DEPENDS compile_rules ${rules} VERBATIM)
  target_sources(anfora_${layer} PRIVATE ${output})
  set_source_files_properties(${output} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# anfora_embed_python(LAYER HEADER FUNCTION TYPE FOLDER): all FOLDER/*.py, as the trees that src/frontend/python reads.
function(anfora_embed_python layer header function type folder)
  find_program(ANFORA_BUILD_PYTHON python3 REQUIRED)
  file(GLOB sources RELATIVE ${PROJECT_SOURCE_DIR}/${folder} CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.py)
  set(writer ${PROJECT_SOURCE_DIR}/src/frontend/python/tree_as_json.py)
  set(made ${PROJECT_BINARY_DIR}/python_trees)
  set(trees "")
  foreach(source ${sources})
    add_custom_command(OUTPUT ${made}/${source}.json
      COMMAND ${CMAKE_COMMAND} -E make_directory ${made}
      COMMAND ${ANFORA_BUILD_PYTHON} ${writer} ${source} > ${made}/${source}.json
      DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/${source} ${writer} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} VERBATIM)
    list(APPEND trees ${made}/${source}.json)
  endforeach()
  anfora_embed_files(${layer} ${header} ${function} ${type} ${folder} ${trees})
endfunction()
