#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh installed|subdirectory SOURCE BUILD WORK TORCH_DIR [DEPS]: builds and runs the consumer.
#
# With add_subdirectory() the consumer would compile the whole library again. Instead this script checks that it would
# run the same commands that built the library in BUILD, then links the consumer with that library.
set -euo pipefail
how=$1 source=$2 build=$3 work=$4 torch=$5 deps=${6:-}
rm -rf "$work"
arguments=(-G Ninja -S "$source/tests/consumer" -B "$work/build" "-DTorch_DIR=$torch" "-DHYDRAMIX_DEPS=$deps"
           --no-warn-unused-cli)

# The commands that build the library in a build folder, with paths relative to its project. Only a top-level project
# uses ccache and install rules.
commands() { # commands FOLDER PROJECT-BINARY-DIR LIBRARY
  ninja -C "$1" -t commands "$3" |
    sed -e "s|$2/||g" -e 's|\<hydramix/||g' -e 's|^.*/ccache ||' -e 's| -fpch-preprocess||' -e 's| -Wl,-rpath,[^ ]*||' | sort
}

if [ "$how" = installed ]; then
  cmake --install "$build" --prefix "$work/prefix" >/dev/null
  test -f "$work/prefix/include/hydramix/hydramix.h"
  test -f "$work/prefix/share/hydramix/recipes/glue/hydra.yaml"
  cmake "${arguments[@]}" "-DCMAKE_PREFIX_PATH=$work/prefix" -DCMAKE_BUILD_TYPE=Debug
  cmake --build "$work/build"
else
  # Configures as BUILD was, because these options appear in the commands.
  while IFS= read -r choice; do
    arguments+=("-D$choice")
  done < <(grep -E '^(CMAKE_(BUILD_TYPE|CXX_COMPILER|CXX_COMPILER_LAUNCHER|CXX_FLAGS[A-Z_]*)|HYDRAMIX_(WERROR|UNITY|COMPILE_CUDA)):' \
           "$build/CMakeCache.txt")
  cmake "${arguments[@]}" "-DHYDRAMIX_SOURCE=$source"
  library=$(cd "$build" && echo libhydramix.so.*.*.*)
  diff <(commands "$build" "$build" "$library") <(commands "$work/build" "$work/build/hydramix" "hydramix/$library")
  own=$(ninja -C "$work/build" -t commands CMakeFiles/consumer.dir/main.cpp.o | tail -n 1)
  case $own in *-Wshadow* | *-Werror* | *-fsanitize*) echo "the consumer gets flags of ours: $own"; exit 1 ;; esac
  ninja -C "$work/build" CMakeFiles/consumer.dir/main.cpp.o
  cp -P "$build"/libhydramix.so* "$work/build/hydramix/"
  (cd "$work/build" && eval "$(ninja -t commands consumer | tail -n 1)")
fi
"$work/build/consumer"
if [ "$how" = installed ]; then "$work/prefix/bin/hydramix" info; fi
rm -rf "$work"
