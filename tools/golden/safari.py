# SPDX-License-Identifier: Apache-2.0
"""Golden cases of Hyena from HazyResearch/safari.

    python3 tools/golden/safari.py CHECKOUT tests/golden
"""

import pydoc
import sys
from pathlib import Path

import torch

from case import seeded, stand_in, stand_in_for_einops, write_mixer_case
from linked import Linked, disturbed, network_names

COMMIT = "02220c69d247e5473616cd053a443ad99fd2559b"


def prepare(checkout):
    """Lets the authors' modules be imported without the packages that they do not need here."""
    stand_in_for_einops()
    stand_in("opt_einsum", contract=torch.einsum)
    stand_in("pytorch_lightning.utilities", rank_zero_only=lambda f: f)
    stand_in("rich.syntax")
    stand_in("rich.tree")
    stand_in("omegaconf", DictConfig=dict, ListConfig=list, OmegaConf=None)
    stand_in("hydra.utils", get_method=lambda path: pydoc.locate(path))
    # The package itself imports every model.
    stand_in("src.models.sequence")
    for name in ("src", "src.models", "src.models.sequence"):
        sys.modules[name].__path__ = [str(checkout.joinpath(*name.split(".")))]
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)


def hyena(folder):
    from src.models.sequence.hyena import HyenaOperator

    B, d, width, features = 2, 3, 6, 5
    for order, length, l_max in ((2, 9, 9), (3, 7, 10)):
        operator = HyenaOperator(d, l_max, order=order, filter_order=width, emb_dim=features, w=2)
        # The projections and the short convolution are the block's.
        operator.in_proj = operator.out_proj = operator.short_filter = torch.nn.Identity()
        disturbed(operator, seed=order * 100)
        linked = Linked(
            operator,
            {"filter.position_embeddings": "filter_fn.pos_emb.z", "D": "filter_fn.bias",
             "filter.frequency": "filter_fn.implicit_filter.1.freq",
             **network_names("filter.forward_network", "filter_fn.implicit_filter")},
            {"filter.position_embeddings": (l_max, features), "filter.frequency": (width,)})

        def function(x, params, weights):
            return linked.call(weights, torch.cat([params, x.flatten(2)], 2)).unflatten(2, (d, 1))

        write_mixer_case(
            folder / f"hyena_order{order}.safetensors", mixer="hyena",
            options={"order": order, "max_length": l_max, "filter_width": width,
                     "filter_features": features, "filter_frequency": 2},
            function=function, x=seeded(B, length, d, 1, seed=order),
            params=seeded(B, length, order * d, seed=order + 10), weights=linked.weights,
            source=f"HazyResearch/safari {COMMIT}, src/models/sequence/hyena.py")


def main():
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    prepare(checkout)
    hyena(folder)


if __name__ == "__main__":
    main()
