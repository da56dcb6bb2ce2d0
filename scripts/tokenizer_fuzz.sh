#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Compares the tokenizer with the Hugging Face library on random texts of every script: ids, offsets, type ids and
# decoding, of texts and pairs, truncated and not, cased and uncased. Exits 1 when anything differs.
#   scripts/tokenizer_fuzz.sh [--count 200000] [--seed N] [--command build/release/bin/hydramix]
# Without --seed the texts are new each time; the seed is printed.
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
count=200000
seed=$RANDOM
command=$here/../build/release/bin/hydramix
usage() { echo "error: $1; expected [--count N] [--seed N] [--command FILE]" >&2; exit 2; }
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || usage "$1 needs a value"
  case $1 in
    --count) count=$2 ;;
    --seed) seed=$2 ;;
    --command) command=$2 ;;
    *) usage "unknown option $1" ;;
  esac
  shift 2
done
[[ $count =~ ^[1-9][0-9]*$ && $seed =~ ^[0-9]+$ ]] || usage "--count $count --seed $seed are not numbers"
command=$(realpath "$command")
[ -x "$command" ] || { echo "error: $command is missing. Build it with ./hydramix info, or give --command." >&2; exit 1; }

# The tables of characters must be what the library does.
if ! "$here/hugging_face.sh" "$here/make_unicode_tables.js" | cmp - "$here/../src/text/unicode_tables.cpp"; then
  echo "error: src/text/unicode_tables.cpp is not what scripts/make_unicode_tables.js writes" >&2
  exit 1
fi
"$here/hugging_face.sh" "$here/tokenizer_fuzz.js" "$command" "$count" "$seed"
