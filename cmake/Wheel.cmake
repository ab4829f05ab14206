# The targets `wheel` and `train-wheel`: for `pip install`, on every Linux of x86-64 with a glibc of 2.34 or later (Amazon
# Linux 2023, Ubuntu 22.04, Debian 12). The first has the library with the Python package and all commands but the
# trainer; oneDNN is three times as large as all of that, so the trainer is a wheel of its own. The same objects are
# linked again, with Debian's static libraries; those that Debian has only as shared libraries (ISA-L, oneDNN) go into the
# wheels. The targets are built only on request.
set(static_libraries)
foreach(name archive zstd z crypto yaml-cpp pcre2-8 utf8proc)
  find_library(NXDKIT_STATIC_${name} lib${name}.a)
  if(NOT NXDKIT_STATIC_${name})
    message(STATUS "no wheel can be made: lib${name}.a is missing")
    return()
  endif()
  list(APPEND static_libraries ${NXDKIT_STATIC_${name}})
endforeach()
find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_FOUND)
  return()
endif()

# Debian has no libfmt.a (its sources are in the headers), and its libarchive.a names more than we need.
add_library(nxdkit_static_parts OBJECT EXCLUDE_FROM_ALL tools/wheel/arc4random.cc tools/wheel/libc_data.cc
  tools/wheel/static_archive.cc tools/wheel/static_fmt.cc)
target_link_libraries(nxdkit_static_parts PRIVATE nxdkit_settings)
set(portable ${PROJECT_BINARY_DIR}/portable)
# nxdkit_portable(TARGET OWN LIBRARY... SHARED LIBRARY...): linked statically with our own libraries and with third-party
# ones, and with the shared ones among the latter.
function(nxdkit_portable target)
  cmake_parse_arguments(arg "" "" "OWN;SHARED" ${ARGN})
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:nxdkit_static_parts>)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX)
  add_dependencies(${target} ${arg_OWN})
  # DT_RPATH, unlike DT_RUNPATH, also applies to the libraries of libraries.
  target_link_options(${target} PRIVATE -static-libstdc++ -s LINKER:--gc-sections,--disable-new-dtags)
  target_link_libraries(${target} PRIVATE -Wl,--start-group)
  foreach(library ${arg_OWN})
    target_link_libraries(${target} PRIVATE $<TARGET_FILE:${library}>)
  endforeach()
  target_link_libraries(${target} PRIVATE ${static_libraries} -Wl,--end-group -Wl,--as-needed ${arg_SHARED}
    Threads::Threads)
endfunction()

add_library(libnxdkit-portable SHARED EXCLUDE_FROM_ALL $<TARGET_OBJECTS:libnxdkit> $<TARGET_OBJECTS:nxdkit_commands>)
nxdkit_portable(libnxdkit-portable OWN nxdkit_tool_shared nxdkit_formats nxdkit_lib SHARED ${ISAL_LIBRARY})
target_link_options(libnxdkit-portable PRIVATE
  LINKER:--version-script=${PROJECT_SOURCE_DIR}/tools/library/exports.map)
set_target_properties(libnxdkit-portable PROPERTIES OUTPUT_NAME nxdkit SOVERSION 1 BUILD_WITH_INSTALL_RPATH ON
  INSTALL_RPATH "$ORIGIN" LIBRARY_OUTPUT_DIRECTORY ${portable}/library)
add_executable(wheel-launcher EXCLUDE_FROM_ALL tools/wheel/launcher.cc)
target_link_libraries(wheel-launcher PRIVATE nxdkit_settings ${CMAKE_DL_LIBS})
target_compile_definitions(wheel-launcher PRIVATE NXDKIT_VERSION="${PROJECT_VERSION}")
target_link_options(wheel-launcher PRIVATE -static-libstdc++ -s LINKER:--gc-sections)
set_target_properties(wheel-launcher PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${portable})

# Not named after the command: `cmake --build ... --target grpo-train` would make this one.
add_executable(grpo-train-portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:grpo-train>)
nxdkit_portable(grpo-train-portable OWN nxdkit_trainer nxdkit_tool_shared nxdkit_formats nxdkit_lib
  SHARED ${ISAL_LIBRARY} ${DNNL_LIBRARY} gomp)
set_target_properties(grpo-train-portable PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${portable} BUILD_WITH_INSTALL_RPATH ON
  INSTALL_RPATH "$ORIGIN/../share/nxdkit/lib")

# Third-party code in the programs, as binaries or through headers: the wheel carries its licenses.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE libstdcxx
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(linked ${static_libraries} ${libstdcxx})
foreach(header fmt/format.h nlohmann/json.hpp CLI/CLI.hpp eigen3/Eigen/Core)
  find_file(NXDKIT_HEADER_${header} ${header} REQUIRED)
  list(APPEND linked ${NXDKIT_HEADER_${header}})
endforeach()

set(make_wheel ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/wheel/make_wheel.py --version ${PROJECT_VERSION} --url=${NXDKIT_URL}
  --license ${PROJECT_SOURCE_DIR}/LICENSE --out ${PROJECT_BINARY_DIR}/wheel)
add_custom_target(wheel DEPENDS libnxdkit-portable wheel-launcher completion_scripts VERBATIM
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${portable}/stage
  COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --component tools --prefix ${portable}/stage
  COMMAND ${make_wheel} --shared-object $<TARGET_FILE:libnxdkit-portable> --launcher $<TARGET_FILE:wheel-launcher>
    --header ${PROJECT_SOURCE_DIR}/tools/library/nxdkit.h --package ${PROJECT_SOURCE_DIR}/tools/python/nxdkit
    --stage ${portable}/stage --linked ${linked})
set(plugin)
if(TARGET nxdkit_mpi)
  set(plugin --plugin $<TARGET_FILE:nxdkit_mpi>)
endif()
add_custom_target(train-wheel DEPENDS grpo-train-portable completion_scripts trainer_completion_scripts VERBATIM
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${portable}/train-stage
  COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --component tools --prefix ${portable}/train-stage
  COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --component trainer --prefix ${portable}/train-stage
  COMMAND ${make_wheel} --trainer $<TARGET_FILE:grpo-train-portable> ${plugin} --stage ${portable}/train-stage
    --linked ${linked})
if(TARGET nxdkit_mpi)
  add_dependencies(train-wheel nxdkit_mpi)
endif()
if(TARGET troubleshooting)
  add_dependencies(wheel troubleshooting)
  add_dependencies(train-wheel troubleshooting)
endif()
