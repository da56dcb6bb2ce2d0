#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh installed|subdirectory SOURCE BUILD WORK TORCH_DIR [DEPS]: builds and runs the consumer.
set -euo pipefail
how=$1 source=$2 build=$3 work=$4 torch=$5 deps=${6:-}
rm -rf "$work"
arguments=(-G Ninja -S "$source/tests/consumer" -B "$work/build" "-DTorch_DIR=$torch" -DCMAKE_BUILD_TYPE=Debug
           "-DHYDRAMIX_DEPS=$deps" --no-warn-unused-cli)
if [ "$how" = installed ]; then
  cmake --install "$build" --prefix "$work/prefix" >/dev/null
  test -f "$work/prefix/include/hydramix/hydramix.h"
  arguments+=("-DCMAKE_PREFIX_PATH=$work/prefix")
else
  arguments+=("-DHYDRAMIX_SOURCE=$source")
fi
cmake "${arguments[@]}"
cmake --build "$work/build"
"$work/build/consumer"
if [ "$how" = installed ]; then "$work/prefix/bin/hydramix" info; fi
rm -rf "$work"
