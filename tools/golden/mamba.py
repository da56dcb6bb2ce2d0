# SPDX-License-Identifier: Apache-2.0
"""A golden case of S6 from Mamba's reference function.

    python3 tools/golden/mamba.py CHECKOUT tests/golden

CHECKOUT is a checkout of github.com/state-spaces/mamba at e9594ce. selective_scan_ref converts its
inputs to float32; here that conversion keeps float64.
"""

import importlib.util
import os
import sys

import torch

import case

COMMIT = "e9594ce1c732d97440f0332fdc43170a2294dbfa"
FILE = "mamba_ssm/ops/selective_scan_interface.py"


def main():
    checkout, folder = sys.argv[1:]
    case.stand_in_for_einops()
    case.stand_in("mamba_ssm.utils.torch", custom_fwd=lambda f: f, custom_bwd=lambda f: f)
    case.stand_in("mamba_ssm.ops.triton.layer_norm", _layer_norm_fwd=None)
    spec = importlib.util.spec_from_file_location("selective_scan_interface", os.path.join(checkout, FILE))
    mamba = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mamba)
    B, L, C, N, rank = 2, 17, 5, 3, 1

    # The projections are those of mamba_ssm/modules/mamba_simple.py.
    def s6(x, params, weights):
        u = x.squeeze(-1)
        r, b, c = torch.nn.functional.linear(u, weights["x_proj.weight"]).split([rank, N, N], -1)
        dt = torch.nn.functional.linear(r, weights["dt_proj.weight"])
        to_float, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double
        y = mamba.selective_scan_ref(
            *(t.transpose(1, 2) for t in (u, dt)), -torch.exp(weights["A_log"]),
            *(t.transpose(1, 2) for t in (b, c)), weights["D"], delta_bias=weights["dt_proj.bias"],
            delta_softplus=True)
        torch.Tensor.float = to_float
        return y.transpose(1, 2).unsqueeze(-1)

    case.write_mixer_case(
        os.path.join(folder, "mamba_s6.safetensors"), mixer="s6", options={"d_state": N}, function=s6,
        x=case.seeded(B, L, C, 1, seed=1),
        weights={"x_proj.weight": case.seeded(rank + 2 * N, C, seed=2),
                 "dt_proj.weight": case.seeded(C, rank, seed=3), "dt_proj.bias": case.seeded(C, seed=4),
                 "A_log": case.seeded(C, N, seed=5, scale=0.5), "D": case.seeded(C, seed=6)},
        source="state-spaces/mamba, " + FILE + ", " + COMMIT)


main()
