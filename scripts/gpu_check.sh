#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Everything on a GPU machine in one call and without a network: configure and build against a LibTorch with CUDA,
# run the tests, look for bad memory accesses and races in the kernels, measure. Arguments go to ctest. Run
# scripts/carry_deps.sh first where Highway, utf8proc or zstd is not installed, and bring .carry/ along.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
cmake --preset cuda
cmake --build --preset cuda -j "$(nproc)"
echo "built in $((SECONDS - start)) s"
build/cuda/bin/hydramix info
failed=0
ctest --preset cuda -j "$(nproc)" "$@" || failed=1
echo "built and tested in $((SECONDS - start)) s"

# Those tests that make no long sequences: the tools are slow. A tool that does not end in time is not a failure.
if command -v compute-sanitizer > /dev/null; then
  for tool in memcheck racecheck; do
    pids=()
    for test in build/cuda/tests/kernels_cuda_*_test; do
      timeout 60 compute-sanitizer --tool "$tool" --error-exitcode 99 "$test" \
        --gtest_filter='-*Million*:*Times*:*Large*:*Long*:*Segments*:*Sizes*' > "$test.$tool.log" 2>&1 &
      pids+=("$!:$test")
    done
    for pid in "${pids[@]}"; do
      status=0
      wait "${pid%%:*}" || status=$?
      echo "$tool ${pid##*/}: exit $status, $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "${pid#*:}.$tool.log" | tail -1)"
      [ "$status" -ne 99 ] || failed=1
    done
  done
  echo "checked in $((SECONDS - start)) s"
fi
build/cuda/bin/hydramix bench --suite gpu --json build/cuda/gpu.json 2> /dev/null
echo "all in $((SECONDS - start)) s"
exit "$failed"
