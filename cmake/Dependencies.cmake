# All from Debian packages; see CONTRIBUTING.md for what each is for.
find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(nlohmann_json 3.9 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
# Debian's libisal-dev carries neither a CMake config nor, in every release, a pkg-config file.
find_path(ISAL_INCLUDE_DIR isa-l.h REQUIRED)
find_library(ISAL_LIBRARY isal REQUIRED)
add_library(nxdkit_isal INTERFACE)
target_include_directories(nxdkit_isal SYSTEM INTERFACE ${ISAL_INCLUDE_DIR})
target_link_libraries(nxdkit_isal INTERFACE ${ISAL_LIBRARY})
