#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Configure, build and test against a LibTorch with CUDA, in one call and without a network. Run
# scripts/carry_deps.sh first where Highway, utf8proc or zstd is not installed, and bring .carry/ along.
set -euo pipefail
cd "$(dirname "$0")/.."
start=$SECONDS
cmake --preset cuda
cmake --build --preset cuda -j "$(nproc)"
echo "built in $((SECONDS - start)) s"
build/cuda/bin/hydramix info
ctest --preset cuda -j "$(nproc)" "$@"
echo "built and tested in $((SECONDS - start)) s"
