# SPDX-License-Identifier: Apache-2.0
"""Golden cases of Hyena and H3 from HazyResearch/safari.

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


def h3(folder):
    from src.models.sequence.h3 import H3

    B, L, d_model, N = 2, 9, 4, 6
    for d in (1, 2):
        H = d_model // d
        layer = H3(d_model, d_state=N, l_max=L, head_dim=d).double()
        disturbed(layer, seed=1000 * d)
        # The projections are the block's: here they select q, k and v from one input.
        eye, zero = torch.eye(d_model), torch.zeros(d_model, d_model)
        for i, projection in enumerate((layer.q_proj, layer.k_proj, layer.v_proj)):
            selection = torch.cat([eye if j == i else zero for j in range(3)], 1)
            projection.weight = torch.nn.Parameter(selection)
            torch.nn.init.zeros_(projection.bias)
        layer.output_linear.weight = torch.nn.Parameter(eye)
        torch.nn.init.zeros_(layer.output_linear.bias)
        with torch.no_grad():
            # B is learned in their code too. It only multiplies C, so ours keeps its initial value.
            layer.ssm_k_kernel.kernel.B.zero_()[:, 0] = 1
            layer.kernel.kernel.B.zero_()[..., 0] = 1
        linked = Linked(
            layer,
            {"kernel.log_dt": "kernel.kernel.log_dt", "kernel.C": "kernel.kernel.C", "D": "D",
             "kernel.log_A_real": "kernel.kernel.inv_A_real",
             "kernel.A_imag": "kernel.kernel.A_imag",
             "shift": "ssm_k_kernel.kernel.C", "shift_D": "ssm_k_D"},
            {"shift": (H, d, N)})

        def function(x, params, weights):
            rounding, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double
            try:  # the shift kernel would be rounded to float32
                y = linked.call(weights, torch.cat([params, x.flatten(2)], 2))
            finally:
                torch.Tensor.float = rounding
            # Their output has the channels of a head apart: d major, h minor.
            return y.unflatten(2, (d, H)).transpose(2, 3)

        write_mixer_case(
            folder / f"h3_headdim{d}.safetensors", mixer="h3",
            options={"qk_dim": d, "d_state": N, "max_length": L, "discretisation": "bilinear"},
            function=function, x=seeded(B, L, H, d, seed=d),
            params=seeded(B, L, 2 * d_model, seed=d + 20), weights=linked.weights,
            source=f"HazyResearch/safari {COMMIT}, src/models/sequence/h3.py")


def main():
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    prepare(checkout)
    hyena(folder)
    h3(folder)


if __name__ == "__main__":
    main()
