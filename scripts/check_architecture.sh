#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_architecture.sh: fails where the sources do not keep to docs/architecture.md.
#
#   - An #include points down in the diagram of folders, or stays in its folder.
#   - Only src/ops/cuda includes src/ops/cuda. Its symbols are declared in src/ops, and every one that on_cuda:: names
#     there is also in src/ops/no_cuda.cpp.
#   - Nothing asks the preprocessor whether there are GPU kernels.
#   - Thread-locals are scratch memory within one function; none carries data from one place to another.
#   - An op with kernels on both devices has at most 8 source files.
#   - An op has one autograd function of a name, and none lives in ops/cpu or ops/cuda.
#   - Files are opened for reading in three places, and JSON is parsed in three.
#   - Folders are listed by base/list_folder, which reports that memory is exhausted instead of aborting.
set -euo pipefail
cd "$(dirname "$0")/.."

failures=0
fail() { echo "check_architecture: $*"; failures=$((failures + 1)); }

# Folders from top to bottom, as the diagram lists them.
mapfile -t folders < <(awk '/^```/ { inside = !inside; if (!inside) exit; next } inside && /^[a-z]+ / { print $1 }' docs/architecture.md)
declare -A level
for i in "${!folders[@]}"; do level[${folders[i]}]=$i; done
for folder in src/*/; do
  [ -n "${level[$(basename "$folder")]:-}" ] || fail "$folder is not in the diagram of docs/architecture.md"
done
for folder in "${folders[@]}"; do
  [ -d "src/$folder" ] || fail "docs/architecture.md lists $folder, but there is no src/$folder"
done

# A public header belongs to the folder of the source that includes it first; one without a source to none.
declare -A home
while IFS=: read -r file include; do
  name=${include#*hydramix/}
  name=${name%.h\"}
  [ "$(basename "$file" .cpp)" != "$name" ] || home[$name]=$(cut -d/ -f2 <<< "$file")
done < <(for file in src/*/*.cpp; do echo "$file:$(grep -m1 '^#include "' "$file" || true)"; done | grep '"hydramix/' || true)
[ "${home[block]:-}" = models ] || fail "cannot tell which folder a public header belongs to"

edges=0
while IFS=: read -r file _ include; do
  case $file in
    include/*) from=$(basename "$file" .h) && from=${home[$from]:-} ;;
    *) from=${file#src/} && from=${from%%/*} ;;
  esac
  [ -n "$from" ] || continue
  to=${include#*\"}
  to=${to%\"}
  case $to in
    hydramix/*) to=${to#hydramix/} && to=${home[${to%.h}]:-} ;;
    */*) to=${to%%/*} ;;
    *) to= ;;
  esac
  [ -n "$to" ] && [ "$to" != "$from" ] || continue
  edges=$((edges + 1))
  if [ -z "${level[$to]:-}" ]; then
    fail "$file includes $include, which is in no folder of the diagram"
  elif [ "${level[$to]}" -lt "${level[$from]}" ]; then
    fail "$file ($from) includes $include, which points up to $to"
  fi
done < <(grep -rnE '^#include "' src include --include='*.h' --include='*.cpp' --include='*.cu' --include='*.cuh')
[ "$edges" -gt 100 ] || fail "found only $edges includes between folders: the check is broken"

while IFS= read -r line; do fail "only src/ops/cuda may include this: $line"; done \
  < <(grep -rnE '^#include "ops/cuda/' src tests --include='*.h' --include='*.cpp' | grep -v '^src/ops/cuda/' || true)
while IFS= read -r line; do fail "the backend is chosen by backend_of(): $line"; done \
  < <(grep -rnE 'kBuilt|HYDRAMIX_GPU|__CUDACC__|USE_CUDA' src include --include='*.h' --include='*.cpp' || true)
while IFS= read -r line; do fail "pass data as an argument, not in a thread_local: $line"; done \
  < <(grep -rnE '\bthread_local\b' src include | grep -vE '^src/(data/(joined_documents|masked_batch)|ops/product)\.cpp:' || true)
while IFS= read -r line; do fail "an autograd function belongs to src/ops: $line"; done \
  < <(grep -rnE 'autograd::Function<' src/ops/cpu src/ops/cuda src/kernels src/mixers src/models src/train || true)
while IFS= read -r name; do fail "two autograd functions are called $name"; done \
  < <(grep -rhoE 'class [A-Za-z]+ : public torch::autograd::Function' src | sort | uniq -d || true)

# Every symbol of on_cuda that ops name is in no_cuda.cpp too.
symbols=0
while IFS= read -r symbol; do
  symbols=$((symbols + 1))
  grep -qE "\b$symbol\(" src/ops/no_cuda.cpp || fail "src/ops/no_cuda.cpp has no $symbol()"
done < <(awk '/^namespace on_cuda \{/ { inside = 1; next } /^}/ { inside = 0 } inside' src/ops/*.h |
  grep -vE '^ *//|class|constexpr' | grep -oE '[a-z_0-9]+\(' | tr -d '(' | sort -u)
[ "$symbols" -gt 10 ] || fail "found only $symbols symbols of on_cuda: the check is broken"

# Source files of an op: its header and source, two backends, and each kernel's header and source.
ops=0
for backend in src/ops/cuda/*.cpp; do
  op=$(basename "$backend" .cpp)
  [ -f "src/ops/cpu/$op.cpp" ] || continue
  ops=$((ops + 1))
  count=0
  for file in "src/ops/$op.h" "src/ops/$op.cpp" "src/ops/cpu/$op.cpp" "$backend"; do
    [ -f "$file" ] && count=$((count + 1)) || fail "op $op has no $file"
  done
  case $op in depthwise_conv) kernel=conv ;; *) kernel=$op ;; esac
  for file in src/kernels/{cpu,cuda}/"$kernel".{h,cpp,cu}; do [ ! -f "$file" ] || count=$((count + 1)); done
  [ "$count" -le 8 ] || fail "op $op has $count source files; 8 are enough"
done
[ "$ops" -ge 4 ] || fail "found only $ops ops with two backends: the check is broken"

# Readers: whole files, streams of text, mappings; our own temporary files; what the kernel says about itself in /proc
# and /sys.
readers='^src/(base/read_file|data/byte_stream|io/mapped_file|base/scratch_file|base/memory|base/cores)\.cpp:'
opens='ifstream|std::fstream|filebuf|std::cin\b|\b(fopen|freopen|fread|fgets|getline_unlocked|pread|readv|mmap|copy_file)\(|O_RDONLY'
found=$(grep -rnE "$opens" src --include='*.h' --include='*.cpp' || true)
[ "$(grep -cE "$readers" <<< "$found")" -ge 6 ] || fail "cannot find what opens files: the check is broken"
while IFS= read -r line; do fail "only base/read_file, data/byte_stream and io/mapped_file open files for reading: $line"; done \
  < <(grep -vE "$readers|O_DIRECTORY|^[^:]*:[0-9]+: *//" <<< "$found" || true)
while IFS= read -r line; do fail "base/list_folder lists folders: $line"; done \
  < <(grep -rnE 'directory_iterator' src --include='*.h' --include='*.cpp' | grep -vE '^[^:]*:[0-9]+: *//' || true)
# A text in the program itself is not hostile.
parsers='^src/(base/json_reader|data/json_field|io/safetensors_header)\.cpp:'
found=$(grep -rnE '[jJ]son::(sax_)?parse\(|ordered::parse\(|json::accept\(' src --include='*.h' --include='*.cpp' || true)
[ "$(grep -cE "$parsers" <<< "$found")" -ge 3 ] || fail "cannot find what parses JSON: the check is broken"
while IFS= read -r line; do fail "only base/json_reader, data/json_field and io/safetensors_header parse JSON: $line"; done \
  < <(grep -vE "$parsers|parse\\(R\"" <<< "$found" || true)

[ "$failures" -eq 0 ] || exit 1
echo "check_architecture: ${#folders[@]} folders, $edges includes, $ops ops with two backends, $symbols symbols: as documented"
