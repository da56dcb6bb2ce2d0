# SPDX-License-Identifier: Apache-2.0
# Files of the Python package that the build makes. `cmake --install BUILD --component python --prefix FOLDER` puts the
# libraries and built_for.json into FOLDER, for setup.py.
set(abi 1)
if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
  set(abi 0)
endif()
set(gpu false)
if(HYDRAMIX_HAS_GPU)
  set(gpu true)
endif()
string(REGEX REPLACE "[+].*" "" torch_release "${Torch_VERSION}")  # without a wheel's +cu130
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/built_for.json CONTENT
"{\"version\": \"@PROJECT_VERSION@\", \"torch\": \"@torch_release@\", \"cxx11_abi\": @abi@, \"gpu_kernels\": @gpu@}
" @ONLY)

set_target_properties(hydramix_torch PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON INSTALL_RPATH "$ORIGIN")
install(TARGETS hydramix hydramix_torch LIBRARY DESTINATION . NAMELINK_SKIP COMPONENT python EXCLUDE_FROM_ALL)
install(FILES ${PROJECT_BINARY_DIR}/python/built_for.json DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
