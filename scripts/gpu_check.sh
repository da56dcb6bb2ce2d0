#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds with a CUDA LibTorch, tests and measures on a machine with a GPU. Needs no network. Phases:
#
#   build      the command and the GPU tests; PyTorch compiles the peers meanwhile if they will be timed
#   test       the GPU tests
#   bench      hydramix bench --suite gpu, which verifies before it times
#   python     the Python package on the GPU: opcheck, torch.compile, torch.export, autocast; its times beside those of
#              C++; Hugging Face's libraries on exported folders
#   peers      BERT-base and ViT-B/16 in PyTorch (gpu_peers.py)
#   sanitize   the kernel tests under compute-sanitizer, for bad accesses (memcheck) and races (racecheck)
#
# usage: scripts/gpu_check.sh [--only PHASE,PHASE] [--output DIR] [--seconds N] [--whole] [--peers "OPTIONS"] [-- CTEST OPTIONS]
#   --only     phases to run, in the order above; default: all
#   --output   folder for logs and measurements; default: build/cuda/report
#   --seconds  time limit: start nothing after it and stop what is running; default: no limit
#   --whole    build and run every test of the project, not only those of the GPU
#   --peers    options of gpu_peers.py
# On a machine without Highway, zstd or liblzma: run scripts/carry_deps.sh elsewhere first and copy .carry/.
set -euo pipefail
cd "$(dirname "$0")/.."

phases=build,test,bench,python,peers,sanitize output=build/cuda/report seconds=86400 whole=0 peers=() ctest_options=()
while [ $# -gt 0 ]; do
  case "$1" in
    --only) phases=$2; shift 2 ;;
    --output) output=$2; shift 2 ;;
    --seconds) seconds=$2; shift 2 ;;
    --peers) read -ra peers <<< "$2"; shift 2 ;;
    --whole) whole=1; shift ;;
    --) shift; ctest_options=("$@"); break ;;
    *) echo "error: unknown option $1; see the top of $0" >&2; exit 2 ;;
  esac
done
for phase in ${phases//,/ }; do
  [[ " build test bench python peers sanitize " == *" $phase "* ]] || { echo "error: unknown phase $phase" >&2; exit 2; }
done
mkdir -p "$output"
failed=0 started=$SECONDS prepare_pids=()

spent() { echo $((SECONDS - started)); }
left() { echo $((seconds - SECONDS + started > 1 ? seconds - SECONDS + started : 1)); }
wanted() { [[ ",$phases," == *",$1,"* ]]; }
# NAME COMMAND...: runs the command with its output in NAME.log, until the time limit at most.
run() {
  local name=$1 status=0
  shift
  timeout "$(left)" "$@" > "$output/$name.log" 2>&1 || status=$?
  echo "$name: $([ "$status" -eq 0 ] && echo done || echo "FAILED with $status"), $(spent) s after the start"
  [ "$status" -eq 0 ] || { failed=1; tail -${tail_lines:-15} "$output/$name.log"; }
  return "$status"
}

# Cache of compiled kernels.
export TORCHINDUCTOR_CACHE_DIR=$PWD/build/inductor
if wanted build; then
  # The compiler's own shared libstdc++ comes first. Where another folder on the linker's path has only the static one, the
  # library would get a second libstdc++ beside PyTorch's, and crash where Python calls it.
  export LDFLAGS="-L$(dirname "$(c++ -print-file-name=libstdc++.so)") ${LDFLAGS:-}"
  if wanted peers; then
    # Runs during the build. The GPU is otherwise idle, so PyTorch's autotuning stays valid.
    : > "$output/prepare.log"
    for part in 0 1 2 3; do
      TORCHINDUCTOR_COMPILE_THREADS=2 nice python3 scripts/gpu_peers.py "${peers[@]}" --prepare --part "$part" 4 \
        >> "$output/prepare.log" 2>&1 &
      prepare_pids+=("$!")
    done
  fi
  targets=(hydramix_cli gpu_tests)
  wanted python && targets+=(hydramix_torch python_reference)
  [ "$whole" -eq 1 ] && targets=(all)
  run configure cmake --preset cuda || exit 1
  tail_lines=40 run build cmake --build --preset cuda -j "$(nproc)" --target "${targets[@]}" || exit 1
  cat "$output/configure.log" >> "$output/build.log" && rm "$output/configure.log"
fi
if [ ${#prepare_pids[@]} -gt 0 ]; then
  # Waits a little longer than the build, then stops them, because they would disturb the timings. The rest is compiled
  # later.
  for _ in $(seq 20); do
    kill -0 "${prepare_pids[@]}" 2> /dev/null || break
    sleep 1
  done
  kill "${prepare_pids[@]}" 2> /dev/null || true
  wait "${prepare_pids[@]}" 2> /dev/null || true
  echo "peers: $(grep -c prepare_s "$output/prepare.log" || true) models compiled ahead, $(spent) s after the start"
  cat "$output/prepare.log" >> "$output/build.log" && rm "$output/prepare.log"
fi

if wanted test; then
  selection=(-R '^(kernels/cuda/|(ops|models|train)/gpu_|ops/projection|models/(graphed_|bert_training)|mixers/(law|subquadratic)|eval/case)')
  [ "$whole" -eq 1 ] && selection=()
  tail_lines=60 run test ctest --preset cuda -j "$(nproc)" "${selection[@]}" "${ctest_options[@]}" || true
  grep -E "tests passed|tests failed" "$output/test.log" || true
fi

if wanted bench; then
  run bench build/cuda/bin/hydramix bench --suite gpu --json "$output/gpu.jsonl" || true
  grep -vE "^$|steps" "$output/bench.log" | tr -s ' ' || true  # the whole table is in the log
fi

if wanted python; then
  export HYDRAMIX_LIBRARY=$PWD/build/cuda/python PYTHONPATH=$PWD/python PYTHONDONTWRITEBYTECODE=1
  # Hugging Face's libraries compute on the CPU meanwhile, with the package and without it.
  OMP_NUM_THREADS=2 tail_lines=40 run hugging_face python3 tests/python/hugging_face_check.py build/cuda/bin/hydramix &
  hugging_face_pids=("$!")
  OMP_NUM_THREADS=2 PYTHONPATH='' tail_lines=40 \
    run transformers_alone python3 tests/python/hugging_face_check.py build/cuda/bin/hydramix &
  hugging_face_pids+=("$!")
  tail_lines=40 run torch2 python3 tests/python/torch2_check.py || true
  for pid in "${hugging_face_pids[@]}"; do wait "$pid" || failed=1; done
  run python_times python3 tests/python/bits_test.py build/cuda/tests/python_reference --time cuda || true
  cat "$output/python_times.log"
fi

if wanted peers; then
  tail_lines=5 run peers python3 scripts/gpu_peers.py "${peers[@]}" --seconds "$(($(left) > 30 ? $(left) - 30 : 1))" \
    --json "$output/peers.jsonl" || true
  grep -E '"error"' "$output/peers.jsonl" | cut -c1-300 || true
  sed -n '/^ktok/,$p' "$output/peers.log"
fi

# The tools are slow, so tests with long sequences are left out, and the others run one by one, several at once. A test that
# does not finish in time counts as a failure.
kernel_tests=build/cuda/tests/kernels_cuda_tests
slow_tests='-*Million*:*Large*:*ManyTokens*:*Segments*:CudaPlainScan.Sizes'
# TOOL TEST LOG: prints a line unless the test is clean.
sanitize_one() {
  local status=0 end
  timeout "$4" compute-sanitizer --tool "$1" --error-exitcode 99 "$kernel_tests" --gtest_filter="$2" > "$3" 2>&1 || status=$?
  [ "$status" -ne 0 ] || return 0
  # A test that uses no GPU has nothing to check.
  if grep -q 'before first instrumented API call' "$3" && grep -q 'PASSED' "$3"; then return; fi
  end=$(grep -E 'SUMMARY|FAILED  ]' "$3" | tail -1 || true)
  echo "$1 $2: exit $status${end:+, $end}"
}
sanitize() { # TOOL
  local logs=build/cuda/sanitize/$1 names
  rm -rf "$logs"
  mkdir -p "$logs"
  # Those of the scans, which take longest, come first.
  mapfile -t names < <("$kernel_tests" --gtest_list_tests --gtest_filter="$slow_tests" |
    awk '/^[^ ]/ { suite = $1; next } { print suite $1 }' | sort -r)
  printf '%s\n' "${names[@]}" | xargs -P "$(nproc)" -I {} bash -c \
    'sanitize_one "$1" "$2" "$3/${2//\//_}.log" "$4"' - "$1" {} "$logs" "$(left)" > "$logs/failed"
  cat "$logs"/*.log > "$output/$1.log"
  cat "$logs/failed"
  [ ! -s "$logs/failed" ] || failed=1
  echo "$1: $((${#names[@]} - $(wc -l < "$logs/failed"))) of ${#names[@]} tests are clean, $(spent) s after the start"
}
export -f sanitize_one
export kernel_tests
if wanted sanitize; then
  if command -v compute-sanitizer > /dev/null; then
    sanitize memcheck
    sanitize racecheck
  else
    echo "compute-sanitizer is not there: bad accesses and races were not looked for"
    failed=1
  fi
fi
echo "$([ "$failed" -eq 0 ] && echo "all passed" || echo "FAILED: see above"), $(spent) s; logs in $output"
exit "$failed"
