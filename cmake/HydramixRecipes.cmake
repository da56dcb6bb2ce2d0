# SPDX-License-Identifier: Apache-2.0
# Compiles the recipes in, so that the program knows them by name wherever it is installed.
# Sets HYDRAMIX_RECIPE_SOURCE, which is written again when a recipe changes or a new one appears.
file(GLOB_RECURSE recipe_files CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/recipes ${PROJECT_SOURCE_DIR}/recipes/*.yaml)
set(HYDRAMIX_RECIPES "")
foreach(file IN LISTS recipe_files)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/recipes/${file})
  file(READ ${PROJECT_SOURCE_DIR}/recipes/${file} text)
  string(REGEX REPLACE "\\.yaml$" "" name ${file})
  string(APPEND HYDRAMIX_RECIPES "      {\"${name}\", R\"yaml(${text})yaml\"},\n")
endforeach()
set(HYDRAMIX_RECIPE_SOURCE ${PROJECT_BINARY_DIR}/generated/recipe_texts.cpp)
configure_file(${PROJECT_SOURCE_DIR}/src/config/recipe_texts.cpp.in ${HYDRAMIX_RECIPE_SOURCE} @ONLY)
