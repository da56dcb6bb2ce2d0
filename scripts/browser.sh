#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a script of node that drives Debian's chromium through npm's playwright-core:
#   scripts/browser.sh SCRIPT.js [...]
# Installs chromium with apt-get where it is missing and the user is root, and the library with npm into build/browser,
# once. Exits with 77, which CTest reports as skipped, where something is missing that cannot be installed, or
# HYDRAMIX_NO_INSTALL=1 forbids it.
set -euo pipefail

version=1.65.0
cd "$(dirname "$0")/.."
home=$PWD/build/browser
skip() { echo "skipped: $*" >&2; exit 77; }

# The lists of packages may be old or missing, so a failure is tried again with new ones.
install() {
  [ "$(id -u)" = 0 ] && [ "${HYDRAMIX_NO_INSTALL:-0}" != 1 ] && command -v apt-get >/dev/null || return 0
  export DEBIAN_FRONTEND=noninteractive
  apt-get install -y --no-install-recommends "$@" >/dev/null 2>&1 ||
    { apt-get update && apt-get install -y --no-install-recommends "$@"; } >/dev/null 2>&1 || true
}

command -v chromium >/dev/null || install chromium
for program in chromium node npm; do
  command -v $program >/dev/null || skip "$program is missing: apt-get install chromium nodejs npm"
done
installed=$(node -p "require('$home/node_modules/playwright-core/package.json').version" 2>/dev/null || true)
if [ "$installed" != "$version" ]; then
  mkdir -p "$home"
  echo '{"private": true}' >"$home/package.json"
  npm install --prefix "$home" --no-audit --no-fund --loglevel=error "playwright-core@$version" >"$home/npm.log" 2>&1 ||
    skip "npm cannot install playwright-core@$version: $(tail -n 3 "$home/npm.log")"
fi
NODE_PATH=$home/node_modules exec node "$@"
