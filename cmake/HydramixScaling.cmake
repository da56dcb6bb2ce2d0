# SPDX-License-Identifier: Apache-2.0
# Compiles the measured times of the mixers in, so that `hydramix info mixers` prints their slopes.
# Sets HYDRAMIX_SCALING_SOURCE, which is written again when the times change.
set(scaling_file ${PROJECT_SOURCE_DIR}/docs/data/scaling.jsonl)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${scaling_file})
file(STRINGS ${scaling_file} scaling_lines)
set(HYDRAMIX_SCALING "")
foreach(line IN LISTS scaling_lines)  # line by line: a compiler limits the length of one literal
  string(APPEND HYDRAMIX_SCALING "\n    R\"json(${line}\n)json\"")
endforeach()
set(HYDRAMIX_SCALING_SOURCE ${PROJECT_BINARY_DIR}/generated/scaling_text.cpp)
configure_file(${PROJECT_SOURCE_DIR}/src/bench/scaling_text.cpp.in ${HYDRAMIX_SCALING_SOURCE} @ONLY)
