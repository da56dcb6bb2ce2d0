#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script of node with ONNX Runtime and the Hugging Face tokenizers library:
#   scripts/onnxruntime.sh SCRIPT.js [...]
# npm installs them into build/onnxruntime once: 400 MB, since the packages are for all systems at once. Exits with 77
# where that is impossible, or HYDRAMIX_NO_INSTALL=1 forbids it.
set -euo pipefail

versions=(onnxruntime-node@1.30.0 tokenizers@0.23.2)
here=$(cd "$(dirname "$0")/.." && pwd)
home=$here/build/onnxruntime
skip() { echo "onnxruntime-node cannot be used: $*" >&2; exit 77; }

command -v node >/dev/null && command -v npm >/dev/null || skip "node and npm are missing: apt-get install nodejs npm"
if [ "$(cat "$home/installed" 2>/dev/null)" != "${versions[*]}" ]; then
  [ "${HYDRAMIX_NO_INSTALL:-0}" != 1 ] || skip "it is not installed, and HYDRAMIX_NO_INSTALL=1 says to install nothing"
  mkdir -p "$home"
  echo '{"private": true}' >"$home/package.json"
  # Without this the package would also download libraries for GPUs.
  ONNXRUNTIME_NODE_INSTALL=skip npm install --prefix "$home" --no-audit --no-fund --loglevel=error --fetch-retries=1 \
    "${versions[@]}" >"$home/npm.log" 2>&1 || skip "npm cannot install it: $(tail -n 3 "$home/npm.log")"
  echo "${versions[*]}" >"$home/installed"
fi
NODE_PATH=$home/node_modules exec node "$@"
