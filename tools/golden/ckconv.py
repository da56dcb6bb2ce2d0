# SPDX-License-Identifier: Apache-2.0
"""Golden case of CKConv from dwromero/ckconv.

    python3 tools/golden/ckconv.py CHECKOUT tests/golden

Their layer convolves all channels with all. With one channel in and out it is our mixer of one
head; the channels of the head are further sequences to it. Weights are not normalised.
"""

import sys
from pathlib import Path

import torch

COMMIT = "d44c6441a98792477d6259368c210089bb33fe7a"


def main():
    checkout, folder = Path(sys.argv[1]), Path(sys.argv[2])
    sys.path.insert(0, str(checkout))
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    torch.nn.utils.weight_norm = lambda module: module
    torch.Tensor.cuda = lambda tensor: tensor
    from case import seeded, write_mixer_case
    from linked import Linked
    import ckconv.nn.functional as ckconv_f
    from ckconv.nn import CKConv

    class Layer(torch.nn.Module):
        """CKConv.forward at the length that it is trained for, without rounding to float32."""

        def __init__(self, width, frequency):
            super().__init__()
            self.inner = CKConv(1, 1, width, "Sine", "", 1, True, frequency, 0.0)

        def forward(self, x):
            kernel = self.inner.Kernel(self.inner.handle_rel_positions(x)).view(1, 1, -1)
            return ckconv_f.causal_conv(x, kernel)

    B, L, P, width, frequency = 2, 9, 3, 5, 2.5
    layer = Layer(width, frequency)
    names = {f"network.{n}.{name}": f"inner.Kernel.kernel_net.{4 * n}.{name}"
             for n in range(3) for name in ("weight", "bias")}
    shapes = {"network.0.weight": (width, 1), "network.1.weight": (width, width),
              "network.2.weight": (1, width)}
    linked = Linked(layer, names, shapes)

    def function(x, params, weights):
        lines = x.permute(0, 2, 3, 1).reshape(B * P, 1, L)
        return linked.call(weights, lines).reshape(B, 1, P, L).permute(0, 3, 1, 2)

    write_mixer_case(
        folder / "ckconv.safetensors", mixer="ckconv",
        options={"filter_width": width, "filter_frequency": frequency, "max_length": L},
        function=function, x=seeded(B, L, 1, P, seed=4), weights=linked.weights,
        source=f"dwromero/ckconv {COMMIT}, ckconv/nn/ckconv.py")


if __name__ == "__main__":
    main()
