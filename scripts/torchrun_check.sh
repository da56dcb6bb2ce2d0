#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Starts the command with torchrun of the installed PyTorch, on a machine with a GPU:
#   1. one rank on the GPU with a group of its own (HYDRAMIX_FORCE_GROUP=1): NCCL is initialised, weights are broadcast,
#      gradients summed. The losses must be those of a run without a launcher.
#   2. two ranks on the CPU over Gloo, if the build has it (docs/distributed.md, "Building").
# usage: scripts/torchrun_check.sh [COMMAND]     default: build/cuda/bin/hydramix
set -euo pipefail
cd "$(dirname "$0")/.."
command=$(realpath "${1:-build/cuda/bin/hydramix}")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

train() { # NAME DEVICE LAUNCHER...: prints the losses of a few steps
  local name=$1 device=$2
  shift 2
  "$@" "$command" pretrain --device "$device" --model.vocab 300 --model.layers 2 --model.block.d-model 64 \
    --data.evaluation-documents 20 --data.language-documents 200 --train.steps 8 --train.batch 16 --train.log-every 1 \
    --train.timeout 60 --out "$folder/$name" >"$folder/$name.log" 2>&1 ||
    { echo "$name: FAILED"; tail -n 30 "$folder/$name.log"; return 1; }
  python3 - "$folder/$name/metrics.jsonl" <<'PYTHON'
import json, sys
losses = [json.loads(line).get("loss") for line in open(sys.argv[1])]
print(" ".join(f"{loss:.4f}" for loss in losses if loss is not None))
PYTHON
}
compare() { # NAME LOSSES LOSSES: equal up to the rounding of sums in another order
  python3 - "$@" <<'PYTHON'
import sys
name, *texts = sys.argv[1:]
one, other = ([float(x) for x in text.split()] for text in texts)
worst = max(abs(a - b) for a, b in zip(one, other)) if one and len(one) == len(other) else float("inf")
print(f"{name}: {'same losses' if worst < 2e-3 else 'FAILED, other losses'}\n  alone    {texts[0]}\n  launched {texts[1]}")
sys.exit(worst >= 2e-3)
PYTHON
}

python3 -c 'import torch; print("PyTorch", torch.__version__, "NCCL", torch.cuda.nccl.version())'
alone=$(train gpu_alone cuda)
nccl=$(HYDRAMIX_FORCE_GROUP=1 NCCL_DEBUG=INFO train gpu_torchrun cuda torchrun --no-python --nproc-per-node 1)
compare "torchrun, 1 rank, NCCL" "$alone" "$nccl"
grep -m1 "ncclCommInitRank.*Init COMPLETE" "$folder/gpu_torchrun.log" || { echo "NCCL was not initialised"; exit 1; }

if OMP_NUM_THREADS=1 train gloo cpu torchrun --no-python --nproc-per-node 2 >"$folder/gloo.losses"; then
  compare "torchrun, 2 ranks, Gloo" "$(OMP_NUM_THREADS=1 train cpu_alone cpu)" "$(cat "$folder/gloo.losses")"
elif grep -q "need Gloo, whose headers were missing" "$folder/gloo.log"; then
  echo "torchrun, 2 ranks, Gloo: skipped, this build has no headers of Gloo"
else
  cat "$folder/gloo.losses"
  exit 1
fi
