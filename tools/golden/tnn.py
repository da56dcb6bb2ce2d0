# SPDX-License-Identifier: Apache-2.0
"""Golden cases of TNN from Doraemonzzz/tnn-pytorch, the standalone code of its first author.

    python3 tools/golden/tnn.py CHECKOUT tests/golden
"""

import logging
import sys
from pathlib import Path

import torch

from case import seeded, stand_in_for_einops, write_mixer_case
from linked import Linked, disturbed

COMMIT = "64b4c354d415ea78ef5b631252de77ceae1a4cc7"


def main():
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    stand_in_for_einops()
    logging.disable()
    sys.path.insert(0, str(checkout))
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    from tnn_pytorch.tno import Tno

    B, L, H, width = 2, 9, 3, 5
    # Their activations work in place, on numbers that the norm before them still needs.
    torch.nn.ReLU.forward = lambda self, x: torch.relu(x)
    for causal in (True, False):
        operator = Tno(H, 1, width, causal=causal, use_decay=True, gamma=0.9)
        disturbed(operator.rpe, seed=700)
        names = {f"network.0.{name}": f"rpe.pos_proj.{name}" for name in ("weight", "bias")}
        for n in range(3):
            names.update({f"network.{n + 1}.{name}": f"rpe.layers.{n}.2.{name}"
                          for name in ("weight", "bias")})
        names.update({f"network.4.{name}": f"rpe.out.2.{name}" for name in ("weight", "bias")})
        linked = Linked(operator, names, {})

        def function(x, params, weights):
            return linked.call(weights, x.transpose(1, 2)).transpose(1, 2)  # (B, L, H, 1)

        name = "tnn" if causal else "tnn_bidirectional"
        write_mixer_case(
            folder / f"{name}.safetensors", mixer=name,
            options={"filter_width": width, "filter_decay": 0.9},
            function=function, x=seeded(B, L, H, 1, seed=3), weights=linked.weights,
            source=f"Doraemonzzz/tnn-pytorch {COMMIT}, tnn_pytorch/tno.py")


if __name__ == "__main__":
    main()
