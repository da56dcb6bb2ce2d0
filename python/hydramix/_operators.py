# SPDX-License-Identifier: Apache-2.0
"""The shapes that the operators return, for meta tensors and for torch.compile and torch.export."""

import functools
import json
import sys

import torch
from torch import Tensor


@functools.lru_cache(maxsize=None)
def _parsed(spec: str) -> dict:
    return json.loads(spec)


def _run(spec, method, bfloat16, input, extras, weights) -> Tensor:
    options = _parsed(spec)
    kind = options["kind"]
    if method == "materialize":
        raise NotImplementedError("hydramix: materialize() cannot be traced; call it outside of "
                                  "torch.compile and torch.export.")
    if kind == "block":
        return torch.empty_like(input, memory_format=torch.contiguous_format)
    batch, length = input.shape[0], input.shape[1]
    dtype = weights[0].dtype
    if method == "loss":
        return input.new_empty((), dtype=torch.float32)
    if kind == "masked_lm":
        return input.new_empty((batch, length, options["model"]["vocab"]), dtype=dtype)
    if kind == "encoder":
        return input.new_empty((batch, length, options["model"]["block"]["d_model"]), dtype=dtype)
    outputs = options["classifier"]["outputs"] or options["model"]["block"]["d_model"]
    if options["classifier"]["pooling"] == "tokens":
        return input.new_empty((batch, length, outputs), dtype=dtype)
    cu_seqlens = extras[2]
    rows = batch if cu_seqlens is None else cu_seqlens.shape[0] - 1
    return input.new_empty((rows, outputs), dtype=dtype)


def _run_forward(spec, method, bfloat16, input, extras, weights, wanted, graphs=False):
    output = _run(spec, method, bfloat16, input, extras, weights)
    return output, torch.empty((), dtype=torch.int64, device="cpu")


def _run_backward(gradient, tape, input, weights, wanted):
    tensors = [input, *weights]
    return [torch.empty_like(tensors[i], memory_format=torch.contiguous_format) for i in wanted]


def _graphs_wanted() -> bool:
    inductor = sys.modules.get("torch._inductor.config")
    return inductor is not None and bool(inductor.triton.cudagraphs)


_implementations = torch.library.Library("hydramix", "IMPL")
_implementations.impl("graphs_wanted", _graphs_wanted, "CompositeExplicitAutograd")

if hasattr(torch.library, "register_fake"):
    torch.library.register_fake("hydramix::run", _run)
    torch.library.register_fake("hydramix::run_forward", _run_forward)
    torch.library.register_fake("hydramix::run_backward", _run_backward)
else:
    # The tape of a forward pass on meta tensors is never read, so it may be a meta tensor too.
    def _meta_forward(*arguments):
        output, _ = _run_forward(*arguments)
        return output, torch.empty((), dtype=torch.int64, device="meta")

    _meta = torch.library.Library("hydramix", "IMPL", "Meta")
    _meta.impl("run", _run)
    _meta.impl("run_forward", _meta_forward)
    _meta.impl("run_backward", _run_backward)
