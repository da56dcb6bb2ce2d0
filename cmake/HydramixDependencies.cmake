# SPDX-License-Identifier: Apache-2.0
# Everything HydraMix is built on. HYDRAMIX_DEPS may name a folder with include/ and lib/ of packages
# that a machine lacks (scripts/carry_deps.sh fills one).
set(HYDRAMIX_DEPS "" CACHE PATH "folder with include/ and lib/ of dependencies the system lacks")
if(HYDRAMIX_DEPS)
  list(PREPEND CMAKE_PREFIX_PATH ${HYDRAMIX_DEPS})
endif()

# A project that adds this one with add_subdirectory() links the same targets.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# LibTorch may come with Python only (pip install torch): ask it where. Once found, LibTorch is not looked
# for again, since not every version of its package can be read twice.
find_package(Torch 1.13 QUIET)
if(NOT Torch_FOUND)
  find_program(HYDRAMIX_PYTHON NAMES python3)
  if(HYDRAMIX_PYTHON)
    execute_process(COMMAND ${HYDRAMIX_PYTHON} -c "import torch; print(torch.utils.cmake_prefix_path)"
                    OUTPUT_VARIABLE torch_prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    list(APPEND CMAKE_PREFIX_PATH ${torch_prefix})
  endif()
  find_package(Torch 1.13 REQUIRED)
endif()

find_package(nlohmann_json 3.10 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)
if(HYDRAMIX_BUILD_CLI OR HYDRAMIX_BUILD_TESTS)
  find_package(CLI11 2.1 REQUIRED)
endif()

# Threads are LibTorch's, and its parallel_for is a template that becomes OpenMP in our code.
find_package(OpenMP REQUIRED COMPONENTS CXX)

# Google Highway has no CMake package in every distribution.
find_path(HWY_INCLUDE_DIR hwy/highway.h HINTS ${HYDRAMIX_DEPS}/include REQUIRED)
find_library(HWY_LIBRARY NAMES hwy HINTS ${HYDRAMIX_DEPS}/lib REQUIRED)
if(NOT TARGET hwy::hwy)
  add_library(hwy::hwy UNKNOWN IMPORTED)
  set_target_properties(hwy::hwy PROPERTIES IMPORTED_LOCATION ${HWY_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${HWY_INCLUDE_DIR})
endif()
