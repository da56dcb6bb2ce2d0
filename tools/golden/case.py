# SPDX-License-Identifier: Apache-2.0
"""Writes golden cases of single mixers and of blocks (docs/golden.md) from the code of their authors.

    write_mixer_case(path, mixer="s4d", options={"d_state": 4}, function=f, x=x, weights={"D": d})

calls f(x, params, weights) -> y in float64 and stores inputs, y and all gradients. It needs only
torch and numpy. stand_in() and the einops functions replace packages that the authors' code
imports but that a plain installation lacks.
"""

import json
import math
import re
import struct
import sys
import types

import torch

DTYPES = {torch.float64: "F64", torch.float32: "F32", torch.int64: "I64"}


def save_file(tensors, path, metadata):
    """A .safetensors file. Tensors of 8 bytes per number come first, so that all are aligned."""
    header, data, place = {"__metadata__": metadata}, [], 0
    for name, tensor in sorted(tensors.items(), key=lambda item: -item[1].element_size()):
        raw = tensor.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [place, place + len(raw)]}
        data.append(raw)
        place += len(raw)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def seeded(*shape, seed, scale=1.0):
    """Random normal numbers that float32 represents exactly, in float64."""
    generator = torch.Generator().manual_seed(seed)
    return (scale * torch.randn(*shape, generator=generator)).float().double()


def write_case(path, *, module, constructor, function, x, weights, source, params=None, seed=0):
    """x, params or None, and weights {name: tensor} in the shapes of HydraMix.

    function(x, params, weights) -> y. `source` names the repository, file and commit.
    """
    def leaf(tensor):
        return tensor.detach().float().double().requires_grad_()

    x = leaf(x)
    params = None if params is None else leaf(params)
    weights = {name: leaf(tensor) for name, tensor in weights.items()}
    y = function(x, params, weights)
    assert y.dtype == torch.float64, "the authors' code rounds: y is " + str(y.dtype)
    dy = seeded(*y.shape, seed=seed + 1000)
    y.backward(dy)
    tensors = {"x": x, "dy": dy, "y": y, "grad.x": x.grad}
    if params is not None:
        tensors.update({"params": params, "grad.params": params.grad})
    for name, tensor in weights.items():
        tensors["param." + name] = tensor
        tensors["grad." + name] = tensor.grad if tensor.grad is not None else torch.zeros_like(tensor)
    # Inputs are float32 numbers: half the bytes, nothing lost.
    for name in tensors:
        if name in ("x", "dy", "params") or name.startswith("param."):
            tensors[name] = tensors[name].float()
    save_file(tensors, path, {"module": module, "source": source, "torch": torch.__version__,
                              "constructor": json.dumps(constructor)})


def write_mixer_case(path, *, mixer, options, **case):
    """x and y (B, L, H, P), params (B, L, columns) or None."""
    write_case(path, module="Mixer", constructor={"mixer": mixer, **options}, **case)


def stand_in(name, **attributes):
    """Makes `import name` succeed: a module with these attributes, and its parents."""
    parts = name.split(".")
    for i in range(1, len(parts) + 1):
        path = ".".join(parts[:i])
        if path not in sys.modules:
            sys.modules[path] = types.ModuleType(path)
            if i > 1:
                setattr(sys.modules[".".join(parts[:i - 1])], parts[i - 1], sys.modules[path])
    for key, value in attributes.items():
        setattr(sys.modules[name], key, value)


def _groups(side, ellipsis):
    """'b (h p) ... 1' -> [['b'], ['h', 'p'], <ellipsis>, []]"""
    groups, open_group = [], None
    for token in re.findall(r"\(|\)|\.\.\.|\w+", side):
        if token == "(":
            open_group = []
        elif token == ")":
            groups.append(open_group)
            open_group = None
        elif token == "...":
            groups += [[name] for name in ellipsis]
        elif open_group is not None:
            open_group += [] if token == "1" else [token]
        else:
            groups.append([] if token == "1" else [token])
    return groups


def repeat(tensor, pattern, **sizes):
    """einops.repeat for patterns of names, parentheses, '...' and 1."""
    left, right = pattern.split("->")
    hidden = tensor.dim() - len(_groups(left, []))
    ellipsis = ["_%d" % i for i in range(hidden)] if "..." in left else []
    left, right = _groups(left, ellipsis), _groups(right, ellipsis)
    sizes = dict(sizes)
    for group, size in zip(left, tensor.shape):
        unknown = [name for name in group if name not in sizes]
        if unknown:
            sizes[unknown[0]] = size // math.prod(sizes[name] for name in group if name != unknown[0])
    names = [name for group in left for name in group]
    tensor = tensor.reshape([sizes[name] for name in names])
    target = [name for group in right for name in group]
    new = [name for name in target if name not in names]
    tensor = tensor.expand([sizes[name] for name in new] + list(tensor.shape))
    tensor = tensor.permute([(new + names).index(name) for name in target])
    return tensor.reshape([math.prod(sizes[name] for name in group) for group in right])


def rearrange(tensor, pattern, **sizes):
    """einops.rearrange, likewise."""
    return repeat(tensor, pattern, **sizes)


def reduce(tensor, pattern, how, **sizes):
    """einops.reduce, likewise, for "sum" and "mean"."""
    left, right = pattern.split("->")
    gone = [name for name in re.findall(r"\w+", left) if name != "1" and name not in re.findall(r"\w+", right)]
    tensor = rearrange(tensor, left + "->" + " ".join(gone) + " " + right, **sizes)
    return getattr(torch, how)(tensor, dim=list(range(len(gone)))) if gone else tensor


def stand_in_for_einops():
    stand_in("einops", rearrange=rearrange, repeat=repeat, reduce=reduce)
