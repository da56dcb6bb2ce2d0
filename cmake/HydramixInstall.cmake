# SPDX-License-Identifier: Apache-2.0
# cmake --install: headers, the library, the command, the recipes, and a package for find_package(hydramix).
include(CMakePackageConfigHelpers)

install(TARGETS hydramix EXPORT hydramixTargets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY include/hydramix DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(DIRECTORY recipes DESTINATION ${CMAKE_INSTALL_DATADIR}/hydramix)
# Carried dependencies may lie inside the source tree, where CMake does not look for link paths.
set(carried "$<$<BOOL:${HYDRAMIX_DEPS}>:${HYDRAMIX_DEPS}/lib>")
set_target_properties(hydramix PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON INSTALL_RPATH "${carried}")
if(HYDRAMIX_BUILD_CLI)
  set_target_properties(hydramix_cli PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON
    INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${carried}")
  install(TARGETS hydramix_cli RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/hydramix)
install(EXPORT hydramixTargets NAMESPACE hydramix:: DESTINATION ${package})
configure_package_config_file(cmake/hydramixConfig.cmake.in ${PROJECT_BINARY_DIR}/hydramixConfig.cmake
                              INSTALL_DESTINATION ${package})
# Until 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/hydramixConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/hydramixConfig.cmake ${PROJECT_BINARY_DIR}/hydramixConfigVersion.cmake
        DESTINATION ${package})
