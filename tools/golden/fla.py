# SPDX-License-Identifier: Apache-2.0
"""Golden cases of RetNet and gated linear attention from flash-linear-attention.

    python3 tools/golden/fla.py CHECKOUT tests/golden

CHECKOUT is a checkout of github.com/fla-org/flash-linear-attention at bc3b101. Its naive functions
convert their inputs to float32; here that conversion keeps float64.
"""

import contextlib
import importlib.util
import os
import sys

import torch

import case

COMMIT = "bc3b101dcb713ddc5bd8924b66754eb68b5ccf89"


class Anything:
    """A value for decorators and settings that the reference functions do not use."""

    def __call__(self, *arguments, **keywords):
        return self

    def __getattr__(self, name):
        return self


@contextlib.contextmanager
def everything_in_float64():
    kept = torch.Tensor.float, torch.float, torch.float32
    torch.Tensor.float, torch.float, torch.float32 = torch.Tensor.double, torch.float64, torch.float64
    yield
    torch.Tensor.float, torch.float, torch.float32 = kept


def load(checkout, path):
    spec = importlib.util.spec_from_file_location(path.replace("/", "_")[:-3], os.path.join(checkout, path))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def stand_in_for_triton():
    case.stand_in("einops", rearrange=case.rearrange,
                  repeat=lambda t, pattern, **sizes: case.repeat(t, pattern, **{"2": 2, **sizes}))
    nothing = Anything()
    case.stand_in("triton", autotune=nothing, jit=nothing, heuristics=nothing, Config=nothing)
    case.stand_in("triton.language", constexpr=nothing)
    case.stand_in("fla.modules.backends", dispatch=nothing)
    case.stand_in("fla.ops.utils", prepare_chunk_indices=nothing)
    case.stand_in("fla.utils", IS_AMD=False, autotune_cache_kwargs={}, get_multiprocessor_count=nothing,
                  input_guard=nothing)


def main():
    checkout, folder = sys.argv[1:]
    stand_in_for_triton()
    rotary = load(checkout, "fla/modules/rotary.py")
    retention = load(checkout, "fla/ops/retention/naive.py")
    gla = load(checkout, "fla/ops/gla/naive.py")
    B, L, H, P, d = 1, 19, 2, 3, 4

    def columns(params, begin):
        return params[..., begin * H * d:(begin + 1) * H * d].unflatten(-1, (H, d))

    def retnet(x, params, weights):
        angle = torch.outer(torch.arange(L).double(), 10000.0 ** (-torch.arange(0, d, 2).double() / d))
        turned = [rotary.rotary_embedding_ref(columns(params, i), angle.cos(), angle.sin(), interleaved=True)
                  for i in range(2)]
        q, k, v = (t.transpose(1, 2) for t in (*turned, x))
        with everything_in_float64():
            return retention.naive_retention(q, k, v).transpose(1, 2)

    case.write_mixer_case(
        os.path.join(folder, "fla_retnet.safetensors"), mixer="retnet", options={"qk_dim": d}, function=retnet,
        x=case.seeded(B, L, H, P, seed=1), params=case.seeded(B, L, 2 * H * d, seed=2), weights={},
        source="fla-org/flash-linear-attention, fla/ops/retention/naive.py and fla/modules/rotary.py, " + COMMIT)

    def gated(x, params, weights):
        logits = torch.nn.functional.linear(params[..., 2 * H * d:], weights["gk_proj.weight"],
                                            weights["gk_proj.bias"]).unflatten(-1, (H, d))
        gates = torch.nn.functional.logsigmoid(logits) / 16
        with everything_in_float64():
            return gla.naive_recurrent_gla(columns(params, 0), columns(params, 1), x, gates)[0]

    case.write_mixer_case(
        os.path.join(folder, "fla_gla.safetensors"), mixer="gla", options={"qk_dim": d}, function=gated,
        x=case.seeded(B, L, H, P, seed=3), params=case.seeded(B, L, 2 * H * d + 16, seed=4),
        weights={"gk_proj.weight": case.seeded(H * d, 16, seed=5), "gk_proj.bias": case.seeded(H * d, seed=6)},
        source="fla-org/flash-linear-attention, fla/ops/gla/naive.py, gates of fla/layers/gla.py, " + COMMIT)


main()
