# SPDX-License-Identifier: Apache-2.0
# The dependencies. HYDRAMIX_DEPS may name a folder with include/ and lib/ of packages that the machine lacks
# (scripts/carry_deps.sh creates one).
set(HYDRAMIX_DEPS "" CACHE PATH "folder with include/ and lib/ of dependencies the system lacks")
if(HYDRAMIX_DEPS)
  list(PREPEND CMAKE_PREFIX_PATH ${HYDRAMIX_DEPS})
endif()

# A project that adds this one with add_subdirectory() links the same targets.
set(CMAKE_FIND_PACKAGE_TARGETS_GLOBAL ON)

# LibTorch may be installed only with Python (pip install torch): ask Python for its location. LibTorch is found only
# once, because some versions of its package cannot be loaded twice.
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
find_package(JPEG REQUIRED)
find_package(PNG REQUIRED)
find_package(ZLIB REQUIRED)

# LibTorch owns the thread pool, and its parallel_for is a template that compiles to OpenMP in our code.
find_package(OpenMP REQUIRED COMPONENTS CXX)

find_package(Threads REQUIRED)

# Not every distribution has CMake packages for these.
function(hydramix_find_library name header library)
  find_path(HYDRAMIX_${name}_INCLUDE ${header} HINTS ${HYDRAMIX_DEPS}/include REQUIRED)
  find_library(HYDRAMIX_${name}_LIBRARY NAMES ${library} HINTS ${HYDRAMIX_DEPS}/lib REQUIRED)
  if(NOT TARGET ${name}::${name})
    add_library(${name}::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${name}::${name} PROPERTIES IMPORTED_LOCATION ${HYDRAMIX_${name}_LIBRARY}
                          INTERFACE_INCLUDE_DIRECTORIES ${HYDRAMIX_${name}_INCLUDE})
  endif()
endfunction()
hydramix_find_library(hwy hwy/highway.h hwy)
hydramix_find_library(zstd zstd.h zstd)
hydramix_find_library(lzma lzma.h lzma)

# Boost.Beast, of headers alone, is for the server.
if(HYDRAMIX_BUILD_CLI)
  find_path(HYDRAMIX_BOOST_INCLUDE boost/beast/http.hpp HINTS ${HYDRAMIX_DEPS}/include REQUIRED)
  file(STRINGS ${HYDRAMIX_BOOST_INCLUDE}/boost/version.hpp boost_version REGEX "#define BOOST_VERSION [0-9]+")
  string(REGEX REPLACE "[^0-9]" "" boost_version "${boost_version}")
  if(boost_version LESS 107400)
    message(FATAL_ERROR "${HYDRAMIX_BOOST_INCLUDE}/boost is version ${boost_version}; Boost 1.74 (107400) or later is needed. "
      "On Debian 12 install libboost1.81-dev.")
  endif()
  add_library(boost::beast INTERFACE IMPORTED GLOBAL)
  target_include_directories(boost::beast SYSTEM INTERFACE ${HYDRAMIX_BOOST_INCLUDE})
endif()

# c10d's process groups are part of LibTorch, but their headers include those of Gloo and NCCL. Only the headers are
# needed. Without them, starting several ranks is an error.
find_path(HYDRAMIX_GLOO_INCLUDE gloo/algorithm.h HINTS ${HYDRAMIX_DEPS}/include ${TORCH_INSTALL_PREFIX}/include)
# Gloo is compiled into LibTorch, and its headers carry no version that says with which revision. Debian's fit Debian's
# LibTorch; any others must be marked with the version of LibTorch that they belong to.
if(HYDRAMIX_GLOO_INCLUDE AND NOT (HYDRAMIX_GLOO_INCLUDE STREQUAL "/usr/include" AND TORCH_INSTALL_PREFIX STREQUAL "/usr"))
  set(gloo_mark ${HYDRAMIX_GLOO_INCLUDE}/gloo/LIBTORCH_VERSION)
  set(gloo_for "")
  if(EXISTS ${gloo_mark})
    file(READ ${gloo_mark} gloo_for)
    string(STRIP "${gloo_for}" gloo_for)
  endif()
  string(REGEX REPLACE "[+].*" "" torch_release "${Torch_VERSION}")  # without a wheel's +cu130
  if(NOT gloo_for STREQUAL torch_release)
    message(FATAL_ERROR "Gloo's headers in ${HYDRAMIX_GLOO_INCLUDE} are for LibTorch \"${gloo_for}\" (${gloo_mark}), but "
      "LibTorch is ${torch_release}. Carry those of the revision in its third_party/gloo (scripts/carry_deps.sh), or "
      "give -DHYDRAMIX_GLOO_INCLUDE=OFF to build without Gloo.")
  endif()
endif()
if(TORCH_CUDA_LIBRARIES)
  find_path(HYDRAMIX_NCCL_INCLUDE nccl.h
            HINTS ${HYDRAMIX_DEPS}/include ${CUDA_INCLUDE_DIRS} ${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include)
endif()
function(hydramix_process_groups target)
  foreach(name gloo nccl)
    string(TOUPPER ${name} upper)
    set(header ProcessGroup${upper}.hpp)
    if(name STREQUAL gloo)
      set(header ProcessGroupGloo.hpp)
    endif()
    find_path(HYDRAMIX_C10D_${upper}_INCLUDE torch/csrc/distributed/c10d/${header} HINTS ${TORCH_INCLUDE_DIRS})
    if(HYDRAMIX_${upper}_INCLUDE AND HYDRAMIX_C10D_${upper}_INCLUDE)
      target_sources(${target} PRIVATE src/dist/${name}_group.cpp)
      target_include_directories(${target} SYSTEM PRIVATE ${HYDRAMIX_${upper}_INCLUDE})
    else()
      message(STATUS "HydraMix: no headers of ${name}, so runs of several ranks cannot use it")
      target_sources(${target} PRIVATE src/dist/${name}_group_missing.cpp)
    endif()
  endforeach()
endfunction()
