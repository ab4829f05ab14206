# Compiler settings shared by every target; first-party targets link nxdkit_settings.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# -O2, not -O3: g++ 12 gives false -Wrestrict warnings at -O3, and the hot loops are memory bound.
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
# -g1 gives line numbers in a backtrace and compiles in half the time of -g.
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")

# The commands are a shared library. It exports only what nxdkit.h names, so that calls inside it are as direct as in a
# program.
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # programs use the headers precompiled for the library
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Differences that ccache must ignore to cache a file that uses a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
endif()

add_library(nxdkit_settings INTERFACE)
target_include_directories(nxdkit_settings INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
target_compile_options(nxdkit_settings INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
  -Wnon-virtual-dtor -Woverloaded-virtual $<$<BOOL:${NXDKIT_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)
# g++ 12 warns of copies past the end of std::string where there are none; how often depends on the length of the path
# of the sources.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(nxdkit_settings INTERFACE -Wno-array-bounds -Wno-stringop-overflow)
endif()
# The tools read untrusted files: an index out of range must stop, in release builds too.
target_compile_definitions(nxdkit_settings INTERFACE _GLIBCXX_ASSERTIONS)
if(NXDKIT_SANITIZE)
  target_compile_options(nxdkit_settings INTERFACE -fsanitize=${NXDKIT_SANITIZE} -fno-omit-frame-pointer -O1
    -fno-sanitize-recover=all)
  target_link_options(nxdkit_settings INTERFACE -fsanitize=${NXDKIT_SANITIZE})
endif()

# Two ways to read the same headers less often. Unity: the files of a folder are compiled as one, in a third of the time
# from scratch, for a single build. Precompiled headers also serve a changed file that is compiled alone.
option(NXDKIT_UNITY "compile the files of each folder as one" OFF)
option(NXDKIT_PRECOMPILE "precompile the headers that most files include" ON)
# Compiles the files of a folder as one, or as several units of `most` files.
function(nxdkit_unity target most)
  get_target_property(sources ${target} SOURCES)
  list(SORT sources)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${folder} group)
    math(EXPR count_${group} "0${count_${group}} + 1")
    math(EXPR part "(${count_${group}} - 1) / ${most}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group}_${part})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  # g++ takes a private struct with members from the unnamed namespace of its own file for one from a header.
  target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
if(NXDKIT_UNITY)
  set(NXDKIT_PRECOMPILED_TOO <nlohmann/json.hpp>)  # nearly every unit includes it; too few single files do
  # Garbage collection takes a tenth of the time of a large unit, which needs 900 MB either way.
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(--param=ggc-min-heapsize=700000)
  endif()
endif()
# With sanitizers, g++ 12 crashes on a file at -O3 that uses headers precompiled at another level.
set(NXDKIT_O3_WITHOUT_PRECOMPILED OFF)
if(NXDKIT_SANITIZE)
  set(NXDKIT_O3_WITHOUT_PRECOMPILED ON)
endif()
# nxdkit_precompiled(TARGET OWNER): the target uses the headers that were precompiled for the owner, whose options are
# the same.
function(nxdkit_precompiled target owner)
  if(NXDKIT_PRECOMPILE)
    target_precompile_headers(${target} REUSE_FROM ${owner})
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Winvalid-pch>)
  endif()
endfunction()
# nxdkit_compile_fast(TARGET [OWNER]): precompiles headers for the target itself if no owner is named.
function(nxdkit_compile_fast target)
  if(NXDKIT_UNITY)
    nxdkit_unity(${target} 16)  # a single unit of 23 files would finish last in every build
  endif()
  if(ARGN)
    nxdkit_precompiled(${target} ${ARGN})
  elseif(NXDKIT_PRECOMPILE)
    target_precompile_headers(${target} PRIVATE <cmake/precompiled.h> ${NXDKIT_PRECOMPILED_TOO})
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Winvalid-pch>)
  endif()
endfunction()
