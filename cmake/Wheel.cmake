# The target `wheel`: the commands for `pip install`, on every Linux of x86-64 with a glibc of 2.34 or later (Amazon
# Linux 2023, Ubuntu 22.04, Debian 12). The same objects are linked again, with the static libraries of Debian; what
# Debian has only as shared libraries (ISA-L, oneDNN) goes into the wheel. Nothing of it is built unless asked for.
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
add_library(nxdkit_static_parts OBJECT EXCLUDE_FROM_ALL tools/wheel/arc4random.cc tools/wheel/static_archive.cc
  tools/wheel/static_fmt.cc)
target_link_libraries(nxdkit_static_parts PRIVATE nxdkit_settings)
set(own nxdkit_trainer nxdkit_tool_shared nxdkit_formats nxdkit_lib)
set(portable ${PROJECT_BINARY_DIR}/portable)
get_property(tools DIRECTORY tools PROPERTY BUILDSYSTEM_TARGETS)
set(programs)
foreach(tool ${tools})
  get_target_property(type ${tool} TYPE)
  if(NOT type STREQUAL "EXECUTABLE")
    continue()
  endif()
  add_executable(${tool}-portable EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${tool}>
    $<TARGET_OBJECTS:nxdkit_static_parts>)
  # Not of the command's own name: `cmake --build ... --target nxd-convert` would make this one.
  set_target_properties(${tool}-portable PROPERTIES LINKER_LANGUAGE CXX
    RUNTIME_OUTPUT_DIRECTORY ${portable}/programs BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/../share/nxdkit/lib")
  add_dependencies(${tool}-portable ${own})
  # DT_RPATH, unlike DT_RUNPATH, is where the libraries of libraries are looked for too.
  target_link_options(${tool}-portable PRIVATE -static-libstdc++ -s LINKER:--gc-sections,--disable-new-dtags)
  target_link_libraries(${tool}-portable PRIVATE -Wl,--start-group)
  foreach(library ${own})
    target_link_libraries(${tool}-portable PRIVATE $<TARGET_FILE:${library}>)
  endforeach()
  target_link_libraries(${tool}-portable PRIVATE ${static_libraries} -Wl,--end-group -Wl,--as-needed ${ISAL_LIBRARY}
    ${DNNL_LIBRARY} gomp Threads::Threads)
  list(APPEND programs ${tool}-portable)
endforeach()

# What is in the programs, in binary or through headers: the wheel carries its licenses.
execute_process(COMMAND ${CMAKE_CXX_COMPILER} -print-file-name=libstdc++.a OUTPUT_VARIABLE libstdcxx
  OUTPUT_STRIP_TRAILING_WHITESPACE)
set(linked ${static_libraries} ${libstdcxx})
foreach(header fmt/format.h nlohmann/json.hpp CLI/CLI.hpp eigen3/Eigen/Core)
  find_file(NXDKIT_HEADER_${header} ${header} REQUIRED)
  list(APPEND linked ${NXDKIT_HEADER_${header}})
endforeach()

add_custom_target(wheel DEPENDS ${programs} completion_scripts VERBATIM
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${portable}/stage
  COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --component tools --prefix ${portable}/stage
  COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/wheel/make_wheel.py --version ${PROJECT_VERSION}
    --programs ${portable}/programs --share ${portable}/stage/share --package ${PROJECT_SOURCE_DIR}/tools/python/nxdkit
    --license ${PROJECT_SOURCE_DIR}/LICENSE --out ${PROJECT_BINARY_DIR}/wheel --linked ${linked})
