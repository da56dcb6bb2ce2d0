# SPDX-License-Identifier: Apache-2.0
"""Golden case of M2-BERT's long convolution from HazyResearch/m2.

    python3 tools/golden/m2.py CHECKOUT tests/golden
"""

import sys
from pathlib import Path

import torch

from case import seeded, stand_in, stand_in_for_einops, write_mixer_case
from linked import Linked, disturbed, network_names

COMMIT = "7d359e8ce0d18294d840d1ed775ec920b3b48afd"


class Convolution(torch.nn.Module):
    """Both directions of a filter, as MonarchMixerSequenceMixing applies them to (B, channels, L)."""

    def __init__(self, filter_fn):
        super().__init__()
        self.filter_fn = filter_fn

    def forward(self, x):
        L = x.shape[-1]
        k, k_rev = (f(L)[0].t() for f in (self.filter_fn.filter, self.filter_fn.filter_rev))
        return self.filter_fn(x, L, k_fwd=k, k_rev=k_rev, bias=self.filter_fn.bias[None, :, None])


def main():
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    stand_in_for_einops()
    stand_in("opt_einsum", contract=torch.einsum)
    for package in ("pytorch_lightning.utilities", "rich.syntax", "rich.tree"):
        stand_in(package, rank_zero_only=lambda f: f)
    stand_in("omegaconf", DictConfig=dict, ListConfig=list, OmegaConf=None)
    # The package itself imports the whole model.
    stand_in("src")
    sys.modules["src"].__path__ = [str(checkout / "bert" / "src")]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    from src.mm.hyena_utils import HyenaFilter

    B, L, l_max, d, width, features = 2, 9, 11, 3, 6, 5
    convolution = Convolution(HyenaFilter(d, emb_dim=features, order=width, seq_len=l_max, w=2,
                                          bidirectional=True))
    disturbed(convolution, seed=500)
    linked = Linked(
        convolution,
        {"filter.position_embeddings": "filter_fn.pos_emb.z", "D": "filter_fn.bias",
         "filter.frequency": "filter_fn.implicit_filter.1.freq",
         **network_names("filter.forward_network", "filter_fn.implicit_filter"),
         **network_names("filter.reverse_network", "filter_fn.implicit_filter_rev")},
        {"filter.position_embeddings": (l_max, features), "filter.frequency": (width,)})

    def function(x, params, weights):
        return linked.call(weights, x.squeeze(3).transpose(1, 2)).transpose(1, 2).unsqueeze(3)

    write_mixer_case(
        folder / "m2_conv.safetensors", mixer="m2_conv",
        options={"max_length": l_max, "filter_width": width, "filter_features": features,
                 "filter_frequency": 2},
        function=function, x=seeded(B, L, d, 1, seed=1), weights=linked.weights,
        source=f"HazyResearch/m2 {COMMIT}, bert/src/mm/hyena_utils.py")


if __name__ == "__main__":
    main()
