# SPDX-License-Identifier: Apache-2.0
# Uses ccache if it is installed and no other launcher was chosen (-DCMAKE_CXX_COMPILER_LAUNCHER= disables it).
if(NOT PROJECT_IS_TOP_LEVEL OR DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  return()
endif()
find_program(HYDRAMIX_CCACHE NAMES ccache)
if(HYDRAMIX_CCACHE)
  # ccache supports precompiled headers only with this sloppiness.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${HYDRAMIX_CCACHE})
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:-fpch-preprocess>)
endif()
