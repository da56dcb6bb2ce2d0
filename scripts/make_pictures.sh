#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Draws all pictures of README.md and docs: scripts/make_pictures.sh [OUT], by default into docs. Matrices come from
# the command, charts from the numbers in docs/data. The test cli/pictures_test compares the result with docs.
# HYDRAMIX_BUILD names the folder of the build; by default build/release.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
out=${1:-$root/docs}
build=${HYDRAMIX_BUILD:-$root/build/release}
hydramix=$build/bin/hydramix charts=$build/tests/docs_charts
for program in "$hydramix" "$charts"; do
  [ -x "$program" ] || { echo "$0: $program is missing; build it first: ./hydramix test, or set HYDRAMIX_BUILD" >&2; exit 1; }
done
mkdir -p "$out"
for mixer in semiseparable attention hydra; do
  "$hydramix" matrix $mixer --length 48 --out "$out/matrix_$mixer.svg"
done
"$hydramix" matrix --all --length 48 --out "$out/gallery.svg"
"$hydramix" matrix --ranks --all --length 48 --out "$out/ranks.svg" > /dev/null
mkdir -p "$out/mixers"
"$hydramix" matrix --all --length 32 --out "$out/mixers/"
"$charts" "$root/docs/data" "$out"
