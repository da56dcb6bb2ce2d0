#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# newer_torch_check.sh ROOT: checks Python, Hugging Face and ONNX with the newest PyTorch and transformers of Debian, on
# the CPU. Debian 12 has PyTorch 1.13 and no transformers.
#
#   1. ROOT becomes a Debian sid by debootstrap, unless it is one already, with all packages (3 GB). Needs root.
#   2. The tree is copied to ROOT/root/hydramix and built there; build outputs of an earlier call are used again.
#   3. The tests of tests/python, tests/onnx, tests/hub and io/torch_archive_test run, then the real transformers opens
#      our folders, with the package hydramix and without it. Times of the block from Python and in C++ are printed.
#
# sentence-transformers is no package of Debian: its part is skipped. HYDRAMIX_JOBS sets how many compilers run at once.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$(realpath -m "${1:?usage: scripts/newer_torch_check.sh ROOT}")
jobs=${HYDRAMIX_JOBS:-$(nproc)}
packages=(cmake ninja-build g++ libtorch-dev libopenblas0-openmp libhwy-dev libfmt-dev nlohmann-json3-dev libyaml-cpp-dev
  libjpeg-dev libpng-dev zlib1g-dev libzstd-dev liblzma-dev libgloo-dev libboost-dev libgtest-dev python3-torch
  python3-dev python3-setuptools python3-wheel python3-venv python3-transformers python3-tokenizers python3-accelerate
  python3-safetensors python3-onnx python3-onnxruntime)

[ "$(id -u)" = 0 ] || { echo "error: debootstrap and chroot need root" >&2; exit 1; }
[ "$root/root/hydramix" != "$PWD" ] || { echo "error: this tree is the copy itself; start from another" >&2; exit 1; }
if [ ! -x "$root/usr/bin/apt-get" ]; then
  command -v debootstrap >/dev/null || { echo "error: no debootstrap; apt-get install debootstrap" >&2; exit 1; }
  debootstrap --variant=minbase sid "$root"
fi
inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
  OMP_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=1 HYDRAMIX_NO_INSTALL=1 HYDRAMIX_JOBS="$jobs" bash -c "cd /root/hydramix && $1"; }
mkdir -p "$root/root/hydramix"
if ! mountpoint -q "$root/proc"; then
  mount -t proc proc "$root/proc"
  trap 'umount "$root/proc"' EXIT
fi
if ! inside "dpkg -s ${packages[*]} >/dev/null 2>&1"; then
  inside "apt-get update -q && apt-get install -qy --no-install-recommends ${packages[*]}"
fi
git ls-files -z | tar --null -T - -c | tar -x -C "$root/root/hydramix"

failed=()
check() { # check NAME COMMAND
  echo "== $1"
  inside "$2" || failed+=("$1")
}
inside 'dpkg-query -W python3-torch python3-transformers python3-tokenizers python3-accelerate python3-safetensors \
  python3-onnx python3-onnxruntime g++ python3'
# A build that fails ends the script: nothing else could run.
inside "[ -f build/release/build.ninja ] || cmake --preset release >/dev/null
  ninja -C build/release -j $jobs hydramix_cli hydramix_torch python_reference onnx_tests hub_tests io_tests"
check 'tests' "ctest --test-dir build/release --output-on-failure -R '^(python|onnx|hub)/|^io/torch_archive_test'"
check 'torch2_check' './hydramix python tests/python/torch2_check.py'
check 'transformers, with the package hydramix' \
  './hydramix python tests/python/hugging_face_check.py build/release/bin/hydramix 2>/dev/null'
check 'transformers alone' 'python3 tests/python/hugging_face_check.py build/release/bin/hydramix 2>/dev/null'
check 'times' './hydramix python tests/python/bits_test.py build/release/tests/python_reference --time cpu'
echo "${#failed[@]} failures${failed[*]:+: ${failed[*]}}"
[ ${#failed[@]} = 0 ]
