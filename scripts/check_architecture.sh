#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# check_architecture.sh: fails where the sources do not keep to docs/architecture.md.
#
#   - An #include points down in the diagram of folders, or stays in its folder.
#   - Only src/ops/cuda includes src/ops/cuda. Its symbols are declared in src/ops, and every one that on_cuda:: names
#     there is also in src/ops/no_cuda.cpp.
#   - Nothing asks the preprocessor whether there are GPU kernels.
#   - Thread-locals are scratch memory within one function; none carries data from one place to another.
#   - No static container does so either. Exceptions are named.
#   - Layers above ops do not ask for the device, but for those that the document lists.
#   - An op with kernels on both devices has at most 8 source files, besides those that the document lists.
#   - An op has one autograd function, and none lives in ops/cpu or ops/cuda. Exceptions are named.
#   - No parameter struct is declared for both devices separately.
#   - Files are opened for reading in three places, and JSON is parsed in three.
#   - Folders are listed by base/list_folder, which reports that memory is exhausted instead of aborting.
set -euo pipefail
cd "$(dirname "$0")/.."

failures=0
fail() { echo "check_architecture: $*"; failures=$((failures + 1)); }

# Folders from top to bottom, as the diagram lists them.
mapfile -t folders < <(awk '/^```/ { inside = !inside; if (!inside) exit; next } inside && /^[a-z]+ / { print $1 }' docs/architecture.md)
declare -A level
for i in "${!folders[@]}"; do
  [ -z "${level[${folders[i]}]:-}" ] || fail "the diagram of docs/architecture.md lists ${folders[i]} twice"
  level[${folders[i]}]=$i
done
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
# The registry of mixers; modules and captured calls for Python to use again; folders that were cleared of temporary
# files.
keepers='^src/(mixers/registry|python/(module_pool|captured_call)|base/atomic_file)\.cpp:'
statics='\bstatic (std::(unordered_)?(map|set|multimap|vector|list|deque)<|auto ?[*&]|[A-Z][A-Za-z]*[*&]? [a-z_]+( =|;|\{))'
found=$(grep -rnE "$statics" src include --include='*.h' --include='*.cpp' || true)
[ "$(grep -cE "$keepers" <<< "$found")" -ge 3 ] || fail "cannot find static objects: the check is broken"
while IFS= read -r line; do fail "let an object that both places know own the data: $line"; done \
  < <(grep -vE "$keepers|^$|^[^:]*:[0-9]+:.*\(.*[{,]$" <<< "$found" || true)
while IFS= read -r line; do fail "an autograd function belongs to src/ops: $line"; done \
  < <(grep -rnE 'autograd::Function<' src/ops/cpu src/ops/cuda src/kernels src/mixers src/models src/train || true)
# Each of these files has a second function: cauchy, fourier and norm hold two ops; LibTorch's fused attention keeps an
# autograd graph of its own.
several='^(cauchy CauchyMatrix CauchyProduct|fourier CosineTransform FourierTransform|norm GatedNormFunction LayerNormFunction'
several+='|attention SoftmaxAttention FusedAttention)$'
functions=0
for file in src/ops/*.cpp src/ops/*.h; do
  read -ra names < <(grep -oE 'autograd::Function<[A-Za-z]+>' "$file" | sed 's/.*<//; s/>//' | paste -sd ' ') || true
  functions=$((functions + ${#names[@]}))
  [ "${#names[@]}" -le 1 ] || grep -qE "$several" <<< "$(basename "${file%.*}") ${names[*]}" ||
    fail "$file has ${#names[@]} autograd functions (${names[*]}); one function, with a backend beneath it, is enough"
done
[ "$functions" -gt 15 ] || fail "found only $functions autograd functions: the check is broken"

# The device. docs/architecture.md says what each of these does with it; bench measures devices.
devices='mixers/mixer mixers/vandermonde models/device models/graphed_encoder train/checkpoint reproduce/reproduce'
devices+=' dist/c10d_communicator python/module_pool cli/info cli/serve cli/view'
found=$(grep -rnE 'has_cuda_kernels|backend_of|is_cuda\(|is_cpu\(|kCUDA|torch::cuda' \
  src/{mixers,models,hub,onnx,eval,dist,train,serve,reproduce,python,cli} --include='*.h' --include='*.cpp' || true)
for file in $devices; do
  grep -q "^src/$file\.cpp:" <<< "$found" || fail "src/$file.cpp no longer asks for the device: take it off the list"
done
while IFS= read -r line; do fail "ops choose by the device (kernel_input_type, can_capture, host_copy): $line"; done \
  < <(grep -vE "^src/(${devices// /|})\.cpp:|^$" <<< "$found" || true)

# Parameter structs, in the headers of kernels.
structs() { grep -hoE '^(struct|class) [A-Za-z]+ ' "$@" | awk '{ print $2 }' | sort -u; }
mapfile -t cpu_headers < <(find src/kernels/cpu -name '*.h' ! -name '*-inl.h')
declared=$(structs "${cpu_headers[@]}" && structs src/kernels/cuda/*.h && structs src/kernels/*.h)
[ "$(wc -l <<< "$declared")" -gt 30 ] || fail "cannot find the structs of kernels: the check is broken"
while IFS= read -r name; do fail "$name is declared for both devices; declare it once, in src/kernels"; done \
  < <(sort <<< "$declared" | uniq -d)

# Every symbol of on_cuda that ops name is in no_cuda.cpp too.
symbols=0
while IFS= read -r symbol; do
  symbols=$((symbols + 1))
  grep -qE "\b$symbol\(" src/ops/no_cuda.cpp || fail "src/ops/no_cuda.cpp has no $symbol()"
done < <(awk '/^namespace on_cuda \{/ { inside = 1; next } /^}/ { inside = 0 } inside' src/ops/*.h |
  grep -vE '^ *//|class|constexpr' | grep -oE '[a-z_0-9]+\(' | tr -d '(' | sort -u)
[ "$symbols" -gt 10 ] || fail "found only $symbols symbols of on_cuda: the check is broken"

# Source files of an op: its header and source, two backends, and all files of its kernels, except those that
# docs/architecture.md lists as additional.
mapfile -t additional < <(awk -F'|' '/^\| op \| additional files/ { inside = 1 } inside' docs/architecture.md |
  grep -oE '`(ops/)?(cpu|cuda)/[^`]+`' | tr -d '`')
[ "${#additional[@]}" -gt 0 ] || fail "docs/architecture.md lists no additional files: the check is broken"
declare -A listed owner
for file in "${additional[@]}"; do
  case $file in
    ops/*) file=src/$file ;;
    *) file=src/kernels/$file ;;
  esac
  listed[$file]=1
  [ -f "$file" ] || fail "docs/architecture.md lists $file, which does not exist"
done
ops=0
for backend in src/ops/cuda/*.cpp; do
  op=$(basename "$backend" .cpp)
  [ -f "src/ops/cpu/$op.cpp" ] || continue
  ops=$((ops + 1))
  files=("src/ops/$op.h" "src/ops/$op.cpp" "src/ops/cpu/$op.cpp" "$backend")
  for file in "${files[@]}"; do [ -f "$file" ] || fail "op $op has no $file"; done
  case $op in
    depthwise_conv) kernels=(conv) ;;
    norm) kernels=(norm gated_norm layer_norm) ;;
    scan) kernels=(scan plain_scan head_scan) ;;
    *) kernels=("$op") ;;
  esac
  parts=(src/ops/{cpu,cuda}/"$op"_*)
  for kernel in "${kernels[@]}"; do parts+=(src/kernels/{cpu,cuda}/"$kernel"*); done
  for file in "${parts[@]}"; do
    [ -f "$file" ] || continue
    owner[$file]=$op
    [ -n "${listed[$file]:-}" ] || files+=("$file")
  done
  [ "${#files[@]}" -le 8 ] || fail "op $op has ${#files[@]} source files; 8 are enough: ${files[*]}"
done
[ "$ops" -ge 4 ] || fail "found only $ops ops with two backends: the check is broken"
for file in "${!listed[@]}"; do
  [ -n "${owner[$file]:-}" ] || fail "docs/architecture.md lists $file, which is of no op with two backends"
done
# Kernels of ops for one device, and what kernels share.
others='cpu/(fma|gridding|isa|narrow_linear|product|resample)\.cpp|cuda/(cross_entropy|embedding|uniform_tiles)\.cu|cuda/token_tiles\.cpp'
for file in src/kernels/{cpu,cuda}/*.{cpp,cu}; do
  [ ! -f "$file" ] || [ -n "${owner[$file]:-}" ] || grep -qE "/($others)$" <<< "$file" ||
    fail "$file is of no op: name it after its op"
done

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
