#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times BERT-base and ViT-B/16 in PyTorch on one GPU, as peers of `hydramix bench --suite gpu`.

Run it right after the bench on the same machine. It needs PyTorch with CUDA and downloads nothing.

Counts the same work as the bench:
  bert train      zero the gradients; forward; masked-LM head (dense, GELU, LayerNorm, the word table, a bias) and
                  cross-entropy on 30 % of the positions, chosen at random; backward; clip to a norm of 1; AdamW (fused).
                  Weights and gradients are float32, products bfloat16 (autocast). No dropout, as in the bench. The
                  vocabulary is padded to 30528, a multiple of 64, as the bench's head pads it.
  bert inference  forward, head and cross-entropy on 30 % of the positions, without gradients.
  vit gradients   forward, mean of the tokens, 1000 classes, cross-entropy, backward; 128 images of 196 patches. No
                  optimizer, as in the bench's vision row. Patches come as rows of 768 pixels.
Not counted: uploading a batch, reading the loss, compiling.

Attention uses only PyTorch's flash kernel: the other backends are disabled. Modes:
  eager                    as written
  compiled                 torch.compile of the whole model, static shapes, default settings
  deterministic            eager with torch.use_deterministic_algorithms(True)
  compiled_deterministic   both
`same_bits` says whether the gradients of two backward passes over the same batch were equal bit for bit.

Times are medians over steps launched back to back, by events on the device, after warm-up. Prints one JSON object per line as it
measures, then a table. A failing mode prints a line with "error", the rest continues, and the exit status is 1.
"""
import argparse
import contextlib
import gc
import json
import os
import sys
import time

# Deterministic cuBLAS needs a fixed workspace, named before CUDA starts. On Hopper this is the size PyTorch takes anyway.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch
import torch._dynamo
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, PADDED_VOCABULARY, WIDTH, HEADS, LAYERS = 30522, 30528, 768, 12, 12
MODES = ["eager", "compiled", "deterministic", "compiled_deterministic"]
PASSES = ["train", "inference", "vit"]
LENGTHS = [128, 256, 512, 1024, 2048, 8192]


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, length, WIDTH))


class Layer(nn.Module):
    """Post-norm as BERT, or pre-norm as ViT."""

    def __init__(self, pre_norm):
        super().__init__()
        self.pre_norm, self.attention = pre_norm, Attention()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def mlp(self, x):
        return self.down(F.gelu(self.up(x)))

    def forward(self, x):
        if self.pre_norm:
            x = x + self.attention(self.norm1(x))
            return x + self.mlp(self.norm2(x))
        x = self.norm1(x + self.attention(x))
        return self.norm2(x + self.mlp(x))


class MaskedLM(nn.Module):
    def __init__(self, length):
        super().__init__()
        self.words, self.places = nn.Embedding(PADDED_VOCABULARY, WIDTH), nn.Embedding(length, WIDTH)
        self.norm = nn.LayerNorm(WIDTH)
        self.layers = nn.ModuleList(Layer(pre_norm=False) for _ in range(LAYERS))
        self.transform, self.transform_norm = nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)
        self.bias = nn.Parameter(torch.zeros(PADDED_VOCABULARY))
        for weight in (self.words.weight, self.places.weight):
            nn.init.normal_(weight, std=0.02)

    def forward(self, ids, masked, targets):
        x = self.norm(self.words(ids) + self.places.weight)
        for layer in self.layers:
            x = layer(x)
        x = x.reshape(-1, WIDTH)[masked]
        x = self.transform_norm(F.gelu(self.transform(x)))
        return F.cross_entropy(F.linear(x, self.words.weight, self.bias).float(), targets)


class Vit(nn.Module):
    def __init__(self, patches=196, pixels=3 * 16 * 16, classes=1000):
        super().__init__()
        self.patch, self.places = nn.Linear(pixels, WIDTH), nn.Parameter(torch.zeros(patches, WIDTH))
        self.layers = nn.ModuleList(Layer(pre_norm=True) for _ in range(LAYERS))
        self.norm, self.classes = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, classes)

    def forward(self, pixels, labels):
        x = self.patch(pixels) + self.places
        for layer in self.layers:
            x = layer(x)
        return F.cross_entropy(self.classes(self.norm(x).mean(1)).float(), labels)


def autocast():
    return torch.autocast("cuda", dtype=torch.bfloat16)


class Task:
    """One model with one batch, to warm up, check and time."""

    def __init__(self, name, length, mode, args):
        self.name = name
        self.precision = autocast
        torch.manual_seed(1)
        torch.use_deterministic_algorithms(mode.endswith("deterministic"))
        torch.utils.deterministic.fill_uninitialized_memory = False  # a debugging aid that costs a pass over memory
        self.batch = 128 if name == "vit" else max(1, args.tokens // length)
        n = self.batch * length
        if name == "vit":
            model = Vit()
            pixels = torch.randn(self.batch, length, 768, device="cuda", dtype=torch.bfloat16)
            self.inputs = (pixels, torch.randint(0, 1000, (self.batch,), device="cuda"))
        else:
            model = MaskedLM(length)
            ids = torch.randint(0, VOCABULARY, (self.batch, length), device="cuda")
            masked = torch.randperm(n, device="cuda")[: n * 3 // 10].sort()[0]
            self.inputs = (ids, masked, torch.randint(0, VOCABULARY, (len(masked),), device="cuda"))
        self.model = model.cuda()
        if name == "inference":
            self.model.eval()
            if args.bfloat16_weights:
                self.model.to(torch.bfloat16)
                self.precision = contextlib.nullcontext
        self.call = torch.compile(self.model, dynamic=False) if mode.startswith("compiled") else self.model
        self.optimizer = None
        if name == "train":
            self.optimizer = torch.optim.AdamW(
                self.model.parameters(), lr=8e-4, betas=(0.9, 0.98), eps=1e-6, weight_decay=1e-5, fused=True)

    def gradients(self):
        self.model.zero_grad(set_to_none=True)
        with autocast():
            loss = self.call(*self.inputs)
        loss.backward()
        return loss

    def step(self):
        if self.name == "inference":
            with torch.no_grad(), self.precision():
                return self.call(*self.inputs)
        loss = self.gradients()
        if self.optimizer is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0, foreach=True)
            self.optimizer.step()
        return loss

    def same_bits(self):
        kept = []
        for _ in range(2):
            self.gradients()
            kept.append([p.grad.clone() for p in self.model.parameters()])
        return all(torch.equal(a, b) for a, b in zip(*kept))


def median_ms(step, warm, times):
    for _ in range(warm):
        step()
    marks = [torch.cuda.Event(enable_timing=True) for _ in range(times + 1)]
    marks[0].record()
    for mark in marks[1:]:
        step()
        mark.record()
    torch.cuda.synchronize()
    spent = sorted(a.elapsed_time(b) for a, b in zip(marks, marks[1:]))
    return spent[len(spent) // 2]


def measure(name, length, mode, args):
    began = time.monotonic()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    task = Task(name, length, mode, args)
    loss = task.step()
    torch.cuda.synchronize()
    prepared = time.monotonic() - began
    row = {"peer": "vit-b16" if name == "vit" else "bert-base", "pass": "gradients" if name == "vit" else name,
           "mode": mode, "batch": task.batch, "length": length, "prepare_s": round(prepared, 1)}
    if args.prepare:
        return row
    if not torch.isfinite(loss).item():
        raise RuntimeError(f"the loss is {loss.item()}")
    ms = median_ms(task.step, args.warm, args.times)
    row.update(ms=round(ms, 3), ktok_s=round(task.batch * length / ms, 1))
    if name == "vit":
        row["images_s"] = round(1e3 * task.batch / ms, 1)
    row["peak_GiB"] = round(torch.cuda.max_memory_allocated() / 2**30, 1)
    if name != "inference":
        row["same_bits"] = task.same_bits()
    elif args.bfloat16_weights:
        row["weights"] = "bfloat16"
    return row


def table(rows, lengths):
    lines = ["", f"{'ktok/s':<38}" + "".join(f"{length:>9}" for length in lengths)]
    kinds = dict.fromkeys((r["peer"], r["pass"], r["mode"]) for r in rows if r["peer"] == "bert-base")
    for kind in kinds:
        cells = {r["length"]: f"{r['ktok_s']:.0f}" if "ktok_s" in r else "failed" for r in rows
                 if (r["peer"], r["pass"], r["mode"]) == kind}
        lines.append(f"{' '.join(kind):<38}" + "".join(f"{cells.get(length, '-'):>9}" for length in lengths))
    for r in rows:
        if "images_s" in r:
            lines.append(f"{r['peer']} {r['pass']} {r['mode']}: {r['images_s']:.0f} images/s")
    return "\n".join(lines)


def options():
    def some_of(known, kind=str):
        def parse(text):
            values = [kind(value) for value in text.split(",") if value]
            unknown = [value for value in values if known is not None and value not in known]
            if unknown or not values:
                raise argparse.ArgumentTypeError(f"{unknown or 'nothing'}: choose from {', '.join(map(str, known))}")
            return values
        return parse

    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--lengths", type=some_of(None, int), default=None, help="of BERT; default 128,256,512,1024,2048,8192")
    p.add_argument("--modes", type=some_of(MODES), default=MODES, help=", ".join(MODES))
    p.add_argument("--passes", type=some_of(PASSES), default=PASSES, help=", ".join(PASSES))
    p.add_argument("--tokens", type=int, default=32768, help="tokens per step of BERT")
    p.add_argument("--reduced", action="store_true", help="lengths 128, 512 and 2048, modes eager and compiled, 8 times each")
    p.add_argument("--warm", type=int, default=5, help="warm-up steps")
    p.add_argument("--times", type=int, default=20, help="timed steps")
    p.add_argument("--bfloat16-weights", action="store_true", help="inference with weights rounded once, not by autocast")
    p.add_argument("--prepare", action="store_true", help="compile, fill PyTorch's cache on disk and time nothing")
    p.add_argument("--part", type=int, nargs=2, metavar=("I", "N"), default=(0, 1),
                   help="every N-th measurement from the I-th on: with --prepare several processes can share them")
    p.add_argument("--seconds", type=float, default=float("inf"), help="start no measurement after this time")
    p.add_argument("--json", help="also write the lines to this file")
    args = p.parse_args()
    if args.reduced:
        args.times = 8
        args.modes = [mode for mode in args.modes if mode in ("eager", "compiled")] or args.modes
    args.lengths = args.lengths or ([128, 512, 2048] if args.reduced else LENGTHS)
    return args


def main():
    args, began = options(), time.monotonic()
    if not torch.cuda.is_available():
        sys.exit("error: PyTorch finds no GPU; this script needs one.")
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.backends.cuda.enable_flash_sdp(True)
    torch.backends.cuda.enable_math_sdp(False)
    torch.backends.cuda.enable_mem_efficient_sdp(False)
    if hasattr(torch.backends.cuda, "enable_cudnn_sdp"):
        torch.backends.cuda.enable_cudnn_sdp(False)
    file = open(args.json, "w") if args.json else None

    def say(row):
        for to in (sys.stdout, file):
            if to is not None:
                print(json.dumps(row), file=to, flush=True)

    say({"machine": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
         "times": args.times, "warm": args.warm})
    rows, failed, late = [], 0, 0
    tasks = [(name, length, mode) for mode in args.modes if not args.prepare or mode.startswith("compiled")
             for name in args.passes for length in ([196] if name == "vit" else args.lengths)]
    for name, length, mode in tasks[args.part[0]::args.part[1]]:
        if time.monotonic() - began > args.seconds:
            late += 1
            continue
        try:
            row = measure(name, length, mode, args)
        except Exception as error:  # a failing peer must not stop the others
            row = {"peer": "vit-b16" if name == "vit" else "bert-base", "pass": "gradients" if name == "vit" else name,
                   "mode": mode, "length": length,
                   "error": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"}
            failed += 1
        rows.append(row)
        say(row)
        # Forget the model compiled for another length, so that PyTorch does not switch to variable lengths.
        torch._dynamo.reset()
        gc.collect()
    if not args.prepare:
        print(table(rows, args.lengths), flush=True)
    if late:
        print(f"{late} measurements were left out: --seconds {args.seconds:g} had passed", flush=True)
    return 1 if failed or late else 0


if __name__ == "__main__":
    sys.exit(main())
