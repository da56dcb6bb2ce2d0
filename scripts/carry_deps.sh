#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copies the dependencies that GPU machines without a package registry lack (Google Highway, zstd, liblzma) from this
# Debian machine into .carry/, where the cuda preset looks for them. Debian ships Highway only as a shared library, so
# that is copied; of the others the static library is copied.
set -euo pipefail
cd "$(dirname "$0")/.."
lib=/usr/lib/$(uname -m)-linux-gnu
for needed in /usr/include/hwy/highway.h /usr/include/zstd.h /usr/include/lzma.h "$lib/libhwy.so.1" \
    "$lib/libzstd.a" "$lib/liblzma.a"; do
  [ -e "$needed" ] || { echo "error: $needed is missing: apt-get install libhwy-dev libzstd-dev liblzma-dev" >&2; exit 1; }
done
rm -rf .carry
mkdir -p .carry/include .carry/lib
cp -r /usr/include/hwy /usr/include/lzma .carry/include/
cp /usr/include/zstd.h /usr/include/lzma.h .carry/include/
cp -L "$lib/libzstd.a" "$lib/liblzma.a" .carry/lib/
cp -L "$lib/libhwy.so.1" .carry/lib/libhwy.so.1
cp -L "$lib/libhwy.so.1" .carry/lib/libhwy.so
du -sh .carry
