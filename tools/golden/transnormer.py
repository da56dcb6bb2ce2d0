# SPDX-License-Identifier: Apache-2.0
"""A golden case of TransNormer's linear attention with LRPE.

    python3 tools/golden/transnormer.py CHECKOUT tests/golden

CHECKOUT is a checkout of github.com/Doraemonzzz/nanoTransNormer at d9e635a, a small version by an
author of TransNormerLLM. Lrpe and linear_attention are run as they are. The decays are those of the
paper's first layer, exp(-8 h / H); the repository has the slopes of ALiBi instead.
"""

import importlib.util
import os
import sys

import torch

import case

COMMIT = "d9e635a8c8243c409942b0ab9758176869468d4f"
FILE = "transnormer/model.py"


def main():
    checkout, folder = sys.argv[1:]
    case.stand_in_for_einops()
    case.stand_in("transnormer.lightning_attention", lightning_attention=None)
    spec = importlib.util.spec_from_file_location("transnormer.model", os.path.join(checkout, FILE))
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    B, L, H, P, d = 1, 19, 2, 3, 4

    def transnormer(x, params, weights):
        lrpe = theirs.Lrpe(num_heads=H, embed_dim=d).double()
        del lrpe.theta
        lrpe.theta = weights["theta"].unsqueeze(1)
        q, k = (t.unflatten(-1, (H, d)).transpose(1, 2) for t in params.split(H * d, -1))
        place = torch.arange(L).double()
        distance = place[:, None] - place
        decay = torch.exp(-8 / H * torch.arange(H)[:, None, None] * distance).tril()
        return theirs.linear_attention(lrpe(q), lrpe(k), x.transpose(1, 2), decay).transpose(1, 2)

    case.write_mixer_case(
        os.path.join(folder, "transnormer_lrpe.safetensors"), mixer="transnormer", options={"qk_dim": d},
        function=transnormer, x=case.seeded(B, L, H, P, seed=1), params=case.seeded(B, L, 2 * H * d, seed=2),
        weights={"theta": case.seeded(H, d, seed=3)}, source="Doraemonzzz/nanoTransNormer, " + FILE + ", " + COMMIT)


main()
