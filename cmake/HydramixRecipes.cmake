# SPDX-License-Identifier: Apache-2.0
# Recipes of fine-tuning as part of the program, so that it knows them by name wherever it is installed.
# Sets HYDRAMIX_RECIPE_SOURCE, which is written again when a recipe changes or a new one appears.
file(GLOB recipe_files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/recipes/glue/*.yaml)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${recipe_files})
set(HYDRAMIX_GLUE_RECIPES "")
foreach(file IN LISTS recipe_files)
  file(READ ${file} text)
  get_filename_component(name ${file} NAME_WE)
  string(APPEND HYDRAMIX_GLUE_RECIPES "      {\"${name}\", R\"yaml(${text})yaml\"},\n")
endforeach()
set(HYDRAMIX_RECIPE_SOURCE ${PROJECT_BINARY_DIR}/generated/glue_recipe_texts.cpp)
configure_file(${PROJECT_SOURCE_DIR}/src/glue/recipe_texts.cpp.in ${HYDRAMIX_RECIPE_SOURCE} @ONLY)
