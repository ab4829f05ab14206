# The installed files: the commands with their man pages and completions, the Python package, nxdkit.h for
# C, the libraries for find_package(nxdkit), and Debian packages (cpack -G DEB): nxdkit, nxdkit-dev, and
# nxdkit-mpi if Open MPI is available.
include(CMakePackageConfigHelpers)

install(TARGETS nxdkit_lib nxdkit_formats nxdkit_isal nxdkit_zstd EXPORT nxdkit
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(EXPORT nxdkit NAMESPACE nxdkit:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nxdkit
  COMPONENT dev)
configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/nxdkit-config.cmake.in
  ${PROJECT_BINARY_DIR}/nxdkit-config.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nxdkit)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/nxdkit-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/nxdkit-config.cmake
  ${PROJECT_BINARY_DIR}/nxdkit-config-version.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/nxdkit COMPONENT dev)
include(${CMAKE_CURRENT_LIST_DIR}/PublicHeaders.cmake)
foreach(header ${NXDKIT_PUBLIC_HEADERS})
  get_filename_component(place ${header} DIRECTORY)
  install(FILES ${PROJECT_SOURCE_DIR}/${header} COMPONENT dev
    DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/nxdkit/${place})
endforeach()

# For C: pkg-config finds nxdkit.h and the library relative to its own file, so the tree can be moved.
set(pkgconfig ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH to_prefix /prefix/${pkgconfig} /prefix)
string(REGEX REPLACE "/$" "" to_prefix ${to_prefix})
configure_file(${CMAKE_CURRENT_LIST_DIR}/nxdkit.pc.in ${PROJECT_BINARY_DIR}/nxdkit.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/nxdkit.pc DESTINATION ${pkgconfig} COMPONENT dev)
# For Python: in Debian's place. The library is the one of the commands, three folders up or found by the loader.
install(DIRECTORY ${PROJECT_SOURCE_DIR}/tools/python/nxdkit DESTINATION lib/python3/dist-packages COMPONENT tools
  FILES_MATCHING PATTERN "*.py" PATTERN "py.typed" PATTERN "__pycache__" EXCLUDE)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR nxdkit)
set(CPACK_PACKAGE_CONTACT "${NXDKIT_CONTACT}")
if(NXDKIT_URL)
  set(CPACK_PACKAGE_HOMEPAGE_URL "${NXDKIT_URL}")
endif()
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "checkpoint tools for RL training on AWS Trainium")
set(CPACK_PACKAGE_DESCRIPTION
  "Converts, inspects, verifies and transports model weights between Hugging Face,
 NeuronX Distributed and rollout bundle layouts.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL tools trainer dev)
set(CPACK_COMPONENT_TOOLS_GROUP commands)  # one package
set(CPACK_COMPONENT_TRAINER_GROUP commands)
# For runs on several machines; the commands need no MPI without it.
if(TARGET nxdkit_mpi)
  install(TARGETS nxdkit_mpi LIBRARY DESTINATION lib/nxdkit COMPONENT mpi)
  list(APPEND CPACK_COMPONENTS_ALL mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_NAME nxdkit-mpi)
  set(CPACK_DEBIAN_MPI_PACKAGE_SHLIBDEPS ON)
endif()
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_COMMANDS_PACKAGE_NAME nxdkit)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME nxdkit-dev)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_COMMANDS_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_COMMANDS_PACKAGE_RECOMMENDS libcurl4)  # for ckpt-verify --engine, loaded on demand
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS
  "libarchive-dev, libfmt-dev, libisal-dev, libssl-dev, libzstd-dev, nlohmann-json3-dev, zlib1g-dev")
include(CPack)
