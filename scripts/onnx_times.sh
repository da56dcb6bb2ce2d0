#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Times the encoder of a model in HydraMix and, exported, in ONNX Runtime, one thread each, one text at a time:
#   scripts/onnx_times.sh MODEL [LENGTH...]
# Prints CPU times, because other processes change them less than the time that passes. HydraMix: (the time of `hydramix
# embed` for 9 texts - that for 1) / 8, which leaves out start and loading; the least of 3 each. ONNX Runtime: the least
# of 7 runs after one (scripts/onnx_times.js).
set -euo pipefail
here=$(cd "$(dirname "$0")/.." && pwd)
command=$here/build/release/bin/hydramix
model=$1
shift
lengths=("$@")
[ ${#lengths[@]} -gt 0 ] || lengths=(128 512 2048 8192)
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

"$command" export-onnx "$model" "$folder/model.onnx" --head embedding >/dev/null
words=$(printf 'the %.0s' $(seq 1 20000))
printf '%s\n' "$words" >"$folder/1.txt"
for _ in $(seq 1 9); do printf '%s\n' "$words"; done >"$folder/9.txt"

TIMEFORMAT='%U %S'
# The least CPU time of three calls for a file of texts, in milliseconds.
least() { # least FILE LENGTH
  for _ in 1 2 3; do
    { time OMP_NUM_THREADS=1 "$command" embed "$1" --model "$model" --device cpu --max-length "$2" --batch-tokens 1 \
      --to npy --out "$folder/vectors.npy" >/dev/null 2>&1; } 2>&1
  done | awk '{ ms = 1000 * ($1 + $2) } NR == 1 || ms < best { best = ms } END { print best }'
}

for length in "${lengths[@]}"; do
  "$here/scripts/onnxruntime.sh" "$here/scripts/onnx_times.js" "$folder/model.onnx" "$length"
  one=$(least "$folder/1.txt" "$length")
  nine=$(least "$folder/9.txt" "$length")
  awk -v one="$one" -v nine="$nine" -v length_="$length" \
    'BEGIN { printf "%d tokens in HydraMix: %.1f ms\n", length_, (nine - one) / 8 }'
done
