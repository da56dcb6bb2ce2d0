# SPDX-License-Identifier: Apache-2.0
"""Calls the authors' modules with weights that have our names and shapes."""

import torch
from torch.nn.utils.stateless import functional_call

from case import seeded


def disturbed(module, seed):
    """Moves every weight away from its initial value, so that all of them matter."""
    with torch.no_grad():
        for i, p in enumerate(module.parameters()):
            p.add_(seeded(*p.shape, seed=seed + i, scale=0.2))


class Linked:
    """Weights of a module under our names and shapes. names: {ours: theirs}."""

    def __init__(self, module, names, shapes):
        self.module, self.names = module, names
        self.theirs = {name: p.detach() for name, p in module.named_parameters()}
        self.weights = {ours: self.theirs[name].reshape(shapes.get(ours, self.theirs[name].shape))
                        for ours, name in names.items()}

    def call(self, weights, *inputs):
        state = {name: weights[ours].reshape(self.theirs[name].shape)
                 for ours, name in self.names.items()}
        return functional_call(self.module, state, inputs)


def network_names(ours, theirs, layers=4):
    """The linear layers of a filter: every second module of theirs. The last has no bias."""
    return {f"{ours}.{n}.{name}": f"{theirs}.{2 * n}.{name}" for n in range(layers)
            for name in ("weight", "bias") if (n, name) != (layers - 1, "bias")}
