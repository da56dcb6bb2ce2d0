# SPDX-License-Identifier: Apache-2.0
# Compiles in the Python files that `hydramix export-hf` writes, and the commit for its model card.
# Sets HYDRAMIX_PYTHON_SOURCE, which is written again when one of the files changes.
set(HYDRAMIX_PYTHON_FILES "")
foreach(name configuration_hydramix modeling_hydramix)
  set(file ${PROJECT_SOURCE_DIR}/src/hub/${name}.py)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  string(APPEND HYDRAMIX_PYTHON_FILES "      {\"${name}.py\", R\"python(${text})python\"},\n")
endforeach()
# Empty in a build from an archive.
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD OUTPUT_VARIABLE HYDRAMIX_COMMIT
                OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
set(HYDRAMIX_PYTHON_SOURCE ${PROJECT_BINARY_DIR}/generated/python_files.cpp)
configure_file(${PROJECT_SOURCE_DIR}/src/hub/python_files.cpp.in ${HYDRAMIX_PYTHON_SOURCE} @ONLY)
