#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# launcher_test.sh SOURCE: what ./hydramix does on machines that lack something. Nothing is installed.
set -uo pipefail
source=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failures=0
expect() { # expect NAME CONDITION...
  local name=$1
  shift
  if "$@"; then echo "ok: $name"; else echo "FAILED: $name"; failures=$((failures + 1)); fi
}

# A machine with the usual tools but neither CMake nor ninja nor apt-get: a PATH of links.
mkdir "$work/bin"
for tool in bash env cat awk grep tail head id uname readlink dirname mktemp rm nproc flock mkdir sed; do
  ln -s "$(command -v $tool)" "$work/bin/$tool"
done
cp "$source/hydramix" "$source/CMakePresets.json" "$work/"

out=$(PATH=$work/bin HYDRAMIX_NO_INSTALL=1 "$work/hydramix" info 2>&1)
code=$?
expect 'HYDRAMIX_NO_INSTALL=1 fails with exit code 1' test $code = 1
expect 'it lists exactly what is missing' grep -q 'install nothing: cmake ninja-build g++' <<<"$out"
expect 'it does not name what is there' bash -c '! grep -q "missing.*bash" <<<"$1"' _ "$out"
expect 'it says how to build by hand' grep -q 'cmake --preset release' <<<"$out"

out=$(PATH=$work/bin "$work/hydramix" info 2>&1)
code=$?
expect 'without apt-get it fails with exit code 1' test $code = 1
expect 'and says that there is no apt-get' grep -q 'no apt-get to install with: cmake ninja-build g++' <<<"$out"
expect 'nothing was left behind' test ! -e "$work/build"

out=$(HYDRAMIX_PRESET=nonsense "$work/hydramix" info 2>&1)
code=$?
expect 'an unknown preset fails with exit code 1' test $code = 1
expect 'and is named' grep -q "unknown preset 'nonsense'" <<<"$out"

echo "$failures failures"
exit $((failures > 0))
