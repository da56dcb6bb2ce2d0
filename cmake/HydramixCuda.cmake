# SPDX-License-Identifier: Apache-2.0
# Kernels for NVIDIA GPUs. Where LibTorch has CUDA they are part of the library. Elsewhere HYDRAMIX_COMPILE_CUDA
# compiles them and their tests, so that they keep compiling; without it no CUDA compiler is needed.
set(HYDRAMIX_HAS_GPU OFF)  # whether the library has them
set(HYDRAMIX_COMPILES_CUDA OFF)
if(TORCH_CUDA_LIBRARIES OR HYDRAMIX_COMPILE_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12)
      message(STATUS "HydraMix: CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old for the GPU kernels; 12 is needed")
    else()
      set(HYDRAMIX_COMPILES_CUDA ON)
      find_package(CUDAToolkit REQUIRED)
    endif()
  elseif(HYDRAMIX_COMPILE_CUDA)
    message(STATUS "HydraMix: no CUDA compiler, so the GPU kernels are not compiled")
  else()
    message(STATUS "HydraMix: no CUDA compiler, so models on a GPU run without our kernels, on LibTorch's operations")
  endif()
endif()
if(HYDRAMIX_COMPILES_CUDA AND TORCH_CUDA_LIBRARIES)
  set(HYDRAMIX_HAS_GPU ON)
endif()

# LibTorch's side of the kernels, where it has CUDA; elsewhere the same symbols, which throw.
function(hydramix_gpu_operations target)
  if(NOT HYDRAMIX_HAS_GPU)
    target_sources(${target} PRIVATE src/ops/no_cuda.cpp)
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/ops/cuda/*.cpp)
  target_sources(${target} PRIVATE ${sources})
  target_link_libraries(${target} PRIVATE hydramix_cuda_kernels)
endfunction()

if(NOT HYDRAMIX_COMPILES_CUDA)
  return()
endif()

# LibTorch's package adds its own architectures to the flags of every CUDA file; ours are set on the target.
string(REGEX REPLACE "-gencode[ ;]arch=[^ ;]*" "" CMAKE_CUDA_FLAGS "${CMAKE_CUDA_FLAGS}")
# Ampere (also as PTX for later GPUs), Hopper, and Blackwell if the compiler supports it. Kernels that are only
# compiled, not run, are built for one architecture.
set(architectures "80;90a-real")
if(CMAKE_CUDA_COMPILER_VERSION VERSION_GREATER_EQUAL 12.8)
  list(APPEND architectures "100-real")
endif()
if(NOT HYDRAMIX_HAS_GPU)
  set(architectures "90a-real")
endif()
set(HYDRAMIX_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "architectures of the GPU kernels")

file(GLOB kernels CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.cu ${PROJECT_SOURCE_DIR}/src/kernels/cuda/*.cpp)
add_library(hydramix_cuda_kernels OBJECT ${kernels})
target_compile_features(hydramix_cuda_kernels PUBLIC cxx_std_17 cuda_std_17)
target_compile_options(hydramix_cuda_kernels PRIVATE
  "$<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-fPIC,-Wall,-Wextra;--expt-relaxed-constexpr>"
  "$<$<COMPILE_LANGUAGE:CXX>:-fPIC;-Wall;-Wextra>"
  "$<$<AND:$<COMPILE_LANGUAGE:CUDA>,$<BOOL:${HYDRAMIX_WERROR}>>:--Werror=all-warnings>")
set_target_properties(hydramix_cuda_kernels PROPERTIES CUDA_ARCHITECTURES "${HYDRAMIX_CUDA_ARCHITECTURES}"
                      CUDA_STANDARD 17 CUDA_EXTENSIONS OFF)
target_include_directories(hydramix_cuda_kernels PRIVATE ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(hydramix_cuda_kernels PUBLIC CUDA::cudart)

# Time the passes of scans; built only when they are named.
foreach(tool scan_passes head_passes selective_passes)
  add_executable(${tool} EXCLUDE_FROM_ALL tools/${tool}.cu)
  set_target_properties(${tool} PROPERTIES CUDA_ARCHITECTURES "${HYDRAMIX_CUDA_ARCHITECTURES}" CUDA_STANDARD 17
                        CUDA_EXTENSIONS OFF)
  target_include_directories(${tool} PRIVATE ${PROJECT_SOURCE_DIR} src)
  target_link_libraries(${tool} PRIVATE hydramix_cuda_kernels)
endforeach()
