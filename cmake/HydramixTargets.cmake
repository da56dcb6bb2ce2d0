# SPDX-License-Identifier: Apache-2.0
# Compile options of all targets.
include(GNUInstallDirs)

# A parent project chooses its own build type.
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

option(HYDRAMIX_UNITY "compile several files as one unit, which shares their headers' templates" ON)

# Warnings and sanitizers are private: a consumer's targets do not get them.
function(hydramix_target target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF UNITY_BUILD ${HYDRAMIX_UNITY}
                        UNITY_BUILD_BATCH_SIZE 8)
  # Loops that need -O3 are in hydramix_kernels, which asks for it.
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O2>)
  # -fPIC for executables as well, so that they share the precompiled headers of the libraries.
  target_compile_options(${target} PRIVATE -fPIC -Wall -Wextra -Wshadow $<$<BOOL:${HYDRAMIX_WERROR}>:-Werror>)
  # GCC at -O3 warns about copies beyond the end inside LibTorch's std::vector<bool>.
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(${target} PRIVATE -Wno-array-bounds)
    # GCC's garbage collector would traverse the precompiled header every time. This costs 100 MB per unit and saves up
    # to 15 % of the time.
    target_compile_options(${target} PRIVATE --param=ggc-min-heapsize=1500000)
  endif()
  # GCC 12 falsely warns about overlapping copies inside std::string (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict -Wno-stringop-overflow)
  endif()
  target_include_directories(${target}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE ${PROJECT_SOURCE_DIR}/src)
  if(HYDRAMIX_SANITIZE)
    target_compile_options(${target} PRIVATE -fsanitize=${HYDRAMIX_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(${target} PRIVATE -fsanitize=${HYDRAMIX_SANITIZE})
  endif()
endfunction()

# Unity builds of at most `size` files of one folder, so that an edited file is rebuilt in seconds. Sources added to the
# target after this call are compiled alone.
function(hydramix_small_units target size)
  get_target_property(sources ${target} SOURCES)
  foreach(source ${sources})
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    list(APPEND ${folder}_sources ${source})
    list(LENGTH ${folder}_sources count)
    math(EXPR unit "(${count} - 1) / ${size}")
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${folder}_${unit})
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
endfunction()

# Parsing the headers of LibTorch or the JSON library is most of the work of compiling a file that includes them. They
# are precompiled once for all targets with the same flags.
function(hydramix_precompiled_header name)
  file(CONFIGURE OUTPUT ${name}.cpp CONTENT "")  # written once, not at every configuration
  add_library(${name} OBJECT ${CMAKE_CURRENT_BINARY_DIR}/${name}.cpp)
  hydramix_target(${name})
  target_link_libraries(${name} PRIVATE nlohmann_json::nlohmann_json)
  target_precompile_headers(${name} PRIVATE ${ARGN} <nlohmann/json.hpp> <algorithm> <filesystem> <fstream> <functional>
                            <map> <memory> <optional> <sstream> <string> <vector>)
endfunction()

function(hydramix_torch_precompiled_header name)
  hydramix_precompiled_header(${name} "${PROJECT_SOURCE_DIR}/include/hydramix/torch_compat.h" ${ARGN})
  target_link_libraries(${name} PRIVATE torch OpenMP::OpenMP_CXX)
endfunction()

hydramix_precompiled_header(hydramix_json_header)
hydramix_torch_precompiled_header(hydramix_torch_header)

function(hydramix_use_torch target)
  target_link_libraries(${target} PUBLIC torch PRIVATE OpenMP::OpenMP_CXX)
  target_precompile_headers(${target} REUSE_FROM hydramix_torch_header)
endfunction()
