# SPDX-License-Identifier: Apache-2.0
"""Golden cases of M2-BERT's long convolution and of its whole sequence mixing, from HazyResearch/m2.

    python3 tools/golden/m2.py CHECKOUT tests/golden
"""

import sys
from pathlib import Path

import torch

from case import seeded, stand_in, stand_in_for_einops, write_case, write_mixer_case
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


B, L, L_MAX, D, WIDTH, FEATURES = 2, 9, 11, 3, 6, 5
OPTIONS = {"max_length": L_MAX, "filter_width": WIDTH, "filter_features": FEATURES,
           "filter_frequency": 2}


def filter_names(ours, theirs):
    """Weights of a convolution: {ours: theirs}, and our shapes."""
    names = {f"{ours}filter.position_embeddings": f"{theirs}.pos_emb.z", f"{ours}D": f"{theirs}.bias",
             f"{ours}filter.frequency": f"{theirs}.implicit_filter.1.freq",
             **network_names(f"{ours}filter.forward_network", f"{theirs}.implicit_filter"),
             **network_names(f"{ours}filter.reverse_network", f"{theirs}.implicit_filter_rev")}
    shapes = {f"{ours}filter.position_embeddings": (L_MAX, FEATURES),
              f"{ours}filter.frequency": (WIDTH,)}
    return names, shapes


def write_convolution(folder):
    from src.mm.hyena_utils import HyenaFilter

    convolution = Convolution(HyenaFilter(D, emb_dim=FEATURES, order=WIDTH, seq_len=L_MAX, w=2,
                                          bidirectional=True))
    disturbed(convolution, seed=500)
    linked = Linked(convolution, *filter_names("", "filter_fn"))

    def function(x, params, weights):
        return linked.call(weights, x.squeeze(3).transpose(1, 2)).transpose(1, 2).unsqueeze(3)

    write_mixer_case(
        folder / "m2_conv.safetensors", mixer="m2_conv", options=OPTIONS, function=function,
        x=seeded(B, L, D, 1, seed=1), weights=linked.weights,
        source=f"HazyResearch/m2 {COMMIT}, bert/src/mm/hyena_utils.py")


def with_gates_swapped(tensor):
    """Our columns are z, g, x; theirs x1 = g, x2 = z, v = x."""
    z, g, x = tensor.chunk(3)
    return torch.cat([g, z, x])


def write_sequence_mixing(folder):
    from src.mm.monarch_mixer_sequence_mixer import MonarchMixerSequenceMixing

    mixing = MonarchMixerSequenceMixing(
        D, l_max=L_MAX, bidirectional=True, residual_long_conv=True, hyena_w=2,
        hyena_emb_dim=FEATURES, hyena_filter_order=WIDTH)
    disturbed(mixing, seed=600)
    names = {f"{ours}.{name}": f"{theirs}.{name}" for name in ("weight", "bias") for ours, theirs in (
        ("in_proj", "in_linear"), ("conv1d", "short_filter"), ("out_proj", "out_linear"))}
    shapes = {}
    for ours, theirs in (("matrix_mixer.", "filter_fn"), ("side_mixer.", "filter_fn2")):
        more_names, more_shapes = filter_names(ours, theirs)
        names.update(more_names)
        shapes.update(more_shapes)
    linked = Linked(mixing, names, shapes)

    def swapped(weights):
        return {name: with_gates_swapped(tensor) if name.startswith(("in_proj", "conv1d")) else tensor
                for name, tensor in weights.items()}

    write_case(
        folder / "m2_sequence_mixing.safetensors", module="Block",
        constructor={"mixer": "m2_conv", "style": "gated", "d_model": D, "expand": 1, "headdim": 1,
                     "d_conv": 3, "bias": True, "causal_conv": True, "side_mixer": "m2_conv",
                     "mixer_options": OPTIONS},
        function=lambda x, params, weights: linked.call(swapped(weights), x)[0],
        x=seeded(B, L, D, seed=2), weights=swapped(linked.weights),
        source=f"HazyResearch/m2 {COMMIT}, bert/src/mm/monarch_mixer_sequence_mixer.py")


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
    write_convolution(folder)
    write_sequence_mixing(folder)


if __name__ == "__main__":
    main()
