# SPDX-License-Identifier: Apache-2.0
# A compiler cache, where one is installed and no other was chosen (-DCMAKE_CXX_COMPILER_LAUNCHER= chooses none).
if(NOT PROJECT_IS_TOP_LEVEL OR DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
find_program(HYDRAMIX_CCACHE NAMES ccache)
if(HYDRAMIX_CCACHE)
  # ccache takes files with a precompiled header only if it may ignore what it cannot see of it.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${HYDRAMIX_CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
