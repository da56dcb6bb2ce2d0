#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script of node with the Hugging Face tokenizers library, the version that HydraMix's tokenizer equals:
#   scripts/hugging_face.sh SCRIPT.js [...]
# npm installs the library into build/hugging_face once.
set -euo pipefail

version=0.23.2
cd "$(dirname "$0")/.."
home=$PWD/build/hugging_face
fail() { echo "error: $*" >&2; exit 1; }

command -v node >/dev/null && command -v npm >/dev/null || fail "node and npm are missing: apt-get install nodejs npm"
installed=$(node -p "require('$home/node_modules/tokenizers/package.json').version" 2>/dev/null || true)
if [ "$installed" != "$version" ]; then
  mkdir -p "$home"
  echo '{"private": true}' >"$home/package.json"
  npm install --prefix "$home" --no-audit --no-fund --loglevel=error "tokenizers@$version" >"$home/npm.log" 2>&1 ||
    fail "npm cannot install tokenizers@$version. Is its registry, $(npm config get registry 2>/dev/null), reachable?" \
      "npm said: $(tail -n 3 "$home/npm.log")"
fi
NODE_PATH=$home/node_modules exec node "$@"
