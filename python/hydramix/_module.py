# SPDX-License-Identifier: Apache-2.0
"""What all modules of hydramix share: a spec that names a C++ module, its weights as parameters,
and one operator that runs it."""

import copy
import json
from typing import Any, Dict, List, Optional

import torch
from torch import Tensor, nn

Options = Dict[str, Any]


def complete_options(kind: str, given: Options) -> Options:
    """All options of a kind of module, with those given in place of their defaults.

    An option is given by its name at any depth (``d_state=16`` for
    ``block.mixer_options.d_state``), or as nested dictionaries. Where a name occurs at several
    depths the outermost is meant.
    """
    options = json.loads(torch.ops.hydramix.default_spec(kind))
    for name, value in given.items():
        section = _section_with(options, name)
        if section is None:
            raise ValueError(f"hydramix: unknown option '{name}'. Known: "
                             f"{', '.join(sorted(_leaves(options)))}.")
        if isinstance(section[name], dict):
            if not isinstance(value, dict):
                raise TypeError(f"hydramix: option '{name}' is a section; expected a dict, got "
                                f"{type(value).__name__}.")
            section[name] = _merged(section[name], value, name)
        else:
            section[name] = "inf" if value == float("inf") else value
    return options


def _section_with(options: Options, name: str) -> Optional[Options]:
    level: List[Options] = list(options.values())
    while level:
        for section in level:
            if name in section:
                return section
        level = [v for section in level for v in section.values() if isinstance(v, dict)]
    return None


def _leaves(options: Options) -> List[str]:
    names = []
    for name, value in options.items():
        names += _leaves(value) if isinstance(value, dict) else [name]
    return names


def _merged(section: Options, given: Options, path: str) -> Options:
    merged = copy.deepcopy(section)
    for name, value in given.items():
        if name not in merged:
            raise ValueError(f"hydramix: unknown option '{path}.{name}'.")
        inner = isinstance(value, dict) and isinstance(merged[name], dict)
        merged[name] = _merged(merged[name], value, f"{path}.{name}") if inner else value
    return merged


def check_mask(input: Tensor, attention_mask: Optional[Tensor],
               cu_seqlens: Optional[Tensor]) -> None:
    """Checks what does not need the values of the tensors."""
    if attention_mask is not None:
        if attention_mask.is_floating_point() or attention_mask.is_complex():
            raise TypeError("hydramix: attention_mask must be bool, or integers 0 and 1; got "
                            f"{attention_mask.dtype}.")
        if attention_mask.shape != input.shape[:2]:
            raise ValueError(f"hydramix: attention_mask must be (B, L) = {tuple(input.shape[:2])}; "
                             f"got {tuple(attention_mask.shape)}.")
    if cu_seqlens is not None:
        if cu_seqlens.dtype not in (torch.int32, torch.int64):
            raise TypeError(f"hydramix: cu_seqlens must be int32 or int64; got {cu_seqlens.dtype}.")
        if input.shape[0] != 1:
            raise ValueError("hydramix: packed sequences are one row, (1, tokens, ...); got a batch "
                             f"of {input.shape[0]} with cu_seqlens.")


def autocast_dtype(device: torch.device) -> Optional[torch.dtype]:
    """The dtype of torch.autocast for this device; None where it is off."""
    if device.type == "meta":  # PyTorch 2 has no autocast for it and raises
        return None
    if hasattr(torch, "get_autocast_dtype"):
        on = torch.is_autocast_enabled(device.type)
        return torch.get_autocast_dtype(device.type) if on else None
    if device.type == "cpu":
        return torch.get_autocast_cpu_dtype() if torch.is_autocast_cpu_enabled() else None
    if device.type == "cuda":
        return torch.get_autocast_gpu_dtype() if torch.is_autocast_enabled() else None
    return None


class SpecModule(nn.Module):
    """A C++ module with its weights as parameters under their published names."""

    _spec: str                # JSON, see src/python/called_module.h
    _weight_names: List[str]  # in the order of the operators' arguments
    _weight_paths: List[List[str]]  # the names, split at the dots

    def _adopt(self, kind: str, options: Options, device=None, dtype=None) -> None:
        """Becomes the module of these options, with initial weights."""
        self.options = options
        self._spec = json.dumps({"kind": kind, **options})
        names, weights = torch.ops.hydramix.initial(self._spec)
        self._weight_names = list(names)
        self._weight_paths = [name.split(".") for name in names]
        for (*scopes, last), weight in zip(self._weight_paths, weights):
            parent: nn.Module = self
            for scope in scopes:
                if not hasattr(parent, scope):
                    parent.add_module(scope, nn.Module())
                parent = getattr(parent, scope)
            weight = weight.to(device=device, dtype=dtype)
            parent.register_parameter(last, nn.Parameter(weight))

    def _weights(self) -> List[Tensor]:
        # Looks into the modules' dictionaries, which takes a quarter of getattr's time. A weight
        # that is computed, such as one with a parametrization, is an attribute of another kind.
        weights = []
        for *scopes, name in self._weight_paths:
            holder: nn.Module = self
            for scope in scopes:
                holder = holder._modules[scope]
            weight = holder._parameters.get(name)
            weights.append(getattr(holder, name) if weight is None else weight)
        return weights

    def _run(self, method: str, input: Tensor, *, types: Optional[Tensor] = None,
             mask: Optional[Tensor] = None, cu_seqlens: Optional[Tensor] = None,
             labels: Optional[Tensor] = None, dropout: bool = False,
             bfloat16: bool = False) -> Tensor:
        # The seed comes from PyTorch's generator, so that torch.manual_seed determines dropout.
        seed = torch.randint(2**53, ()) if dropout and self.training else None
        weights = self._weights()
        if weights and weights[0].device != input.device:
            raise RuntimeError(f"hydramix: the input is on {input.device}, the weights are on "
                               f"{weights[0].device}. Move one of them with .to(device).")
        extras = [types, mask, cu_seqlens, labels, seed]
        return torch.ops.hydramix.run(self._spec, method, bfloat16, input, extras, weights)
