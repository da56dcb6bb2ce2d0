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

# Tests that make no long sequences, for the tools are slow; each in parts, side by side. A part that does not end in
# time counts as a failure: it was not checked.
check_kernels() { # TOOL
  local parts=4 tests=build/cuda/tests/kernels_cuda_tests file log part pid status pids=()
  for file in tests/kernels/cuda/*_test.cpp; do
    file=$(basename "$file" .cpp)
    for part in $(seq 0 $((parts - 1))); do
      log=${tests}_$file.$1.$part.log
      GTEST_TOTAL_SHARDS=$parts GTEST_SHARD_INDEX=$part timeout 300 compute-sanitizer --tool "$1" --error-exitcode 99 \
        "$tests" --file="kernels/cuda/$file" \
        --gtest_filter='-*Million*:*Time*:*Large*:*ManyTokens*:*Segments*:CudaPlainScan.Sizes' > "$log" 2>&1 &
      pids+=("$!:$log")
    done
  done
  for pid in "${pids[@]}"; do
    status=0
    wait "${pid%%:*}" || status=$?
    [ "$status" -eq 0 ] || { echo "$1 ${pid##*/}: exit $status, $(grep 'SUMMARY' "${pid#*:}" | tail -1)"; failed=1; }
  done
  echo "$1: ${#pids[@]} parts checked after $((SECONDS - start)) s"
}
if command -v compute-sanitizer > /dev/null; then
  check_kernels memcheck
  check_kernels racecheck
else
  echo "compute-sanitizer is not there: bad accesses and races were not looked for"
  failed=1
fi
build/cuda/bin/hydramix bench --suite gpu --json build/cuda/gpu.json 2> build/cuda/bench.log ||
  { tail -5 build/cuda/bench.log; failed=1; }
echo "all in $((SECONDS - start)) s"
exit "$failed"
