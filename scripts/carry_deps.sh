#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Copies the dependencies that GPU machines without a package registry lack (Google Highway, zstd, liblzma, libjpeg, the
# headers of Boost that the server includes) from this Debian machine into .carry/, where the cuda preset looks for
# them. Debian ships Highway only as a shared library, and its static libjpeg cannot become part of one: of these two
# the shared library is copied, of the others the static.
#   scripts/carry_deps.sh [--gloo CLONE REVISION LIBTORCH]
# --gloo adds Gloo's headers, for several ranks on CPUs: from a clone of github.com/pytorch/gloo, of the revision that
# LIBTORCH (2.11.0) has in third_party/gloo (3135b0b41b67dde590eef0938a0bf3d6238df5f7).
set -euo pipefail
cd "$(dirname "$0")/.."
if [ $# -gt 0 ] && { [ "$1" != --gloo ] || [ $# -ne 4 ]; }; then
  echo "error: unknown arguments $*; see the top of $0" >&2
  exit 2
fi
lib=/usr/lib/$(uname -m)-linux-gnu
for needed in /usr/include/boost/beast/http.hpp /usr/include/hwy/highway.h /usr/include/zstd.h /usr/include/lzma.h \
    "$lib/libhwy.so.1" "$lib/libzstd.a" "$lib/liblzma.a" /usr/include/jpeglib.h "$lib/libjpeg.so.62"; do
  [ -e "$needed" ] || {
    echo "error: $needed is missing: apt-get install libboost1.81-dev libhwy-dev libzstd-dev liblzma-dev libjpeg-dev" >&2
    exit 1
  }
done
rm -rf .carry
mkdir -p .carry/include .carry/lib
cp -r /usr/include/hwy /usr/include/lzma .carry/include/
cp /usr/include/zstd.h /usr/include/lzma.h .carry/include/
cp /usr/include/{jpeglib,jmorecfg,jerror}.h "/usr/include/$(uname -m)-linux-gnu/jconfig.h" .carry/include/
cp -L "$lib/libzstd.a" "$lib/liblzma.a" .carry/lib/
for shared in libhwy.so.1 libjpeg.so.62; do
  cp -L "$lib/$shared" ".carry/lib/$shared"
  cp -L "$lib/$shared" ".carry/lib/${shared%.so.*}.so"
done
# The headers of Boost that the compiler reads here, and the configurations of other compilers.
git grep -h '#include <boost/' -- src tests | sort -u | c++ -std=c++20 -M -x c++ - | tr ' \\' '\n\n' |
  { grep '^/usr/include/boost/' || true; find /usr/include/boost/config /usr/include/boost/version.hpp -name '*.hpp'; } |
  sort -u | tar -c -h -P -T - | tar -x -P --transform "s|^/usr/include|$PWD/.carry/include|"
if [ $# -gt 0 ]; then
  clone=$2 revision=$3 libtorch=$4
  git -C "$clone" archive "$revision" gloo | tar -x -C .carry/include --wildcards '*.h' '*.h.in'
  # Gloo's own build would write config.h. The headers that LibTorch includes need no option of it.
  sed -e 's/@GLOO_VERSION_[A-Z]*@/0/; s/#cmakedefine01 \(.*\)/#define \1 0/' .carry/include/gloo/config.h.in \
    >.carry/include/gloo/config.h
  echo "$libtorch" >.carry/include/gloo/LIBTORCH_VERSION
fi
du -sh .carry
