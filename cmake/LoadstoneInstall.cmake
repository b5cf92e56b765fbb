# What `cmake --install` and the wheel contain: the shared library, the public headers, the CMake package and the
# command. In a wheel (SKBUILD) the prefix is the package folder loadstone/ and the command goes to the scripts folder.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

if(SKBUILD)
  set(loadstone_lib_dir lib)
  set(loadstone_include_dir include)
  # A wheel holds no links: one file without a version in its name.
  set_property(TARGET loadstone PROPERTY VERSION)
  set_property(TARGET loadstone PROPERTY SOVERSION)
  # pyproject.toml installs the component `package` alone, so that the command goes to the scripts folder only.
  install(TARGETS loadstone_cli RUNTIME DESTINATION "${SKBUILD_SCRIPTS_DIR}" COMPONENT package)
else()
  set(loadstone_lib_dir "${CMAKE_INSTALL_LIBDIR}")
  set(loadstone_include_dir "${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(loadstone_cmake_dir "${loadstone_lib_dir}/cmake/loadstone")

install(TARGETS loadstone EXPORT loadstoneTargets
        LIBRARY DESTINATION "${loadstone_lib_dir}" COMPONENT package
        INCLUDES DESTINATION "${loadstone_include_dir}")
install(DIRECTORY "${PROJECT_SOURCE_DIR}/src/loadstone" DESTINATION "${loadstone_include_dir}" COMPONENT package
        FILES_MATCHING PATTERN "*.h")
install(EXPORT loadstoneTargets NAMESPACE loadstone:: DESTINATION "${loadstone_cmake_dir}" COMPONENT package)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/loadstoneConfig.cmake.in"
                              "${PROJECT_BINARY_DIR}/loadstoneConfig.cmake" INSTALL_DESTINATION "${loadstone_cmake_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/loadstoneConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/loadstoneConfig.cmake" "${PROJECT_BINARY_DIR}/loadstoneConfigVersion.cmake"
        DESTINATION "${loadstone_cmake_dir}" COMPONENT package)
