#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Every check that needs no GPU, in phases:
#
#   format   clang-format has nothing to change
#   tidy     clang-tidy (.clang-tidy) has nothing to report
#   asan     all tests under the address and undefined-behaviour sanitizers
#   tsan     the tests of code with threads under the thread sanitizer
#   clang    everything compiles with clang, warnings being errors
#   fuzz     every fuzzer of fuzz/ runs for a minute
#
# usage: scripts/check_all.sh [--only PHASE,PHASE] [--since COMMIT] [--jobs N] [--seconds N]
#   --only     phases to run, in the order above; default: all
#   --since    format and tidy look only at files that changed after this commit; default: at all files
#   --jobs     parallel compilers and tests; default: the number of cores
#   --seconds  time of each fuzzer; default: 60
# Logs: build/check/PHASE.log. The exit code is 1 if a phase failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1

all="format tidy asan tsan clang fuzz"
phases=$all since="" jobs=$(nproc) seconds=60
while [ $# -gt 0 ]; do
  [ $# -ge 2 ] || { echo "error: $1 needs a value; see the top of $0" >&2; exit 2; }
  case "$1" in
    --only) phases=${2//,/ } ;;
    --since) since=$2 ;;
    --jobs) jobs=$2 ;;
    --seconds) seconds=$2 ;;
    *) echo "error: unknown option $1; see the top of $0" >&2; exit 2 ;;
  esac
  shift 2
done
for phase in $phases; do
  [[ " $all " == *" $phase "* ]] || { echo "error: unknown phase $phase; there are: $all" >&2; exit 2; }
done

# The files of these patterns, new ones included; with --since, the tracked ones that changed.
files() {
  if [ -n "$since" ]; then
    git diff --name-only --diff-filter=d "$since" -- "$@"
  else
    git ls-files --cached --others --exclude-standard -- "$@"
  fi
}

check_format() {
  files '*.h' '*.cpp' '*.cu' '*.cuh' | xargs -r clang-format --dry-run -Werror
}

# NAME OPTIONS...: a clang build in build/NAME.
configure_clang() {
  cmake -S . -B "build/$1" -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DCMAKE_BUILD_TYPE=Release -DHYDRAMIX_WERROR=ON \
    -DCMAKE_CXX_FLAGS="-include $PWD/scripts/clang_libtorch.h" "${@:2}"
}

# clang-tidy reads a database of commands in which every file has its own.
check_tidy() {
  configure_clang tidy -DHYDRAMIX_UNITY=OFF -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON -DCMAKE_EXPORT_COMPILE_COMMANDS=ON || return
  # An entry's object is CMakeFiles/TARGET.dir/src/FILE.o.
  comm -12 <(files 'src/*.cpp' | sort) \
    <(grep -oE 'CMakeFiles/[^ ]*\.dir/src/[^ ]*\.cpp\.o ' build/tidy/compile_commands.json |
      sed 's/^[^ ]*\.dir\///; s/\.o $//' | sort -u) |
    xargs -r -n 1 -P "$jobs" clang-tidy -p build/tidy --quiet --warnings-as-errors='*'
}

check_asan() {
  cmake --preset asan && cmake --build --preset asan -j "$jobs" && ctest --preset asan -j "$jobs"
}

check_tsan() {
  local folders=(base data dist images ops serve text train)
  cmake --preset tsan && cmake --build --preset tsan -j "$jobs" --target "${folders[@]/%/_tests}" &&
    ctest --preset tsan -j "$jobs" -L "^($(IFS='|' && echo "${folders[*]}"))\$"
}

check_clang() {
  configure_clang clang && cmake --build build/clang -j "$jobs" -- -k 0
}

# New inputs are kept in build/fuzz/inputs/NAME.
check_fuzz() {
  cmake -S . -B build/fuzz -G Ninja -DCMAKE_CXX_COMPILER=clang++ -DHYDRAMIX_BUILD_FUZZERS=ON || return
  local source name failed=0
  for source in fuzz/*_fuzz.cpp; do
    name=$(basename "$source" _fuzz.cpp)
    mkdir -p "build/fuzz/inputs/$name"
    cmake --build build/fuzz -j "$jobs" --target "${name}_fuzz" &&
      "build/fuzz/fuzz/${name}_fuzz" -max_total_time="$seconds" -max_len=4096 "build/fuzz/inputs/$name" \
        "fuzz/corpus/$name" || failed=1
  done
  return $failed
}

mkdir -p build/check
summary="" failed=0
for phase in $all; do
  [[ " $phases " == *" $phase "* ]] || continue
  echo "== $phase"
  began=$SECONDS
  if "check_$phase" >"build/check/$phase.log" 2>&1; then
    result=ok
  else
    result=FAILED failed=1
    tail -n 30 "build/check/$phase.log"
  fi
  summary+=$(printf '%-8s %-7s %5d s   build/check/%s.log' "$phase" $result $((SECONDS - began)) "$phase")$'\n'
done
printf '\n%s' "$summary"
exit $failed
