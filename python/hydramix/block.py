# SPDX-License-Identifier: Apache-2.0
"""The paper's block around any registered mixer."""

import json
from typing import Any, Dict, NamedTuple, Optional

import torch
from torch import Tensor

from ._module import SpecModule, autocast_dtype, check_mask, complete_options


class MixerInfo(NamedTuple):
    """A registered mixer."""

    name: str
    matrix_class: str   # "Quasiseparable"
    formula: str        # of the entries m_ij
    cost: str           # in the length L
    source: str         # the paper that introduced it
    causal: bool        # the matrix is lower triangular
    extendable: bool    # accepts sequences longer than max_length
    is_matrix: bool     # False: a baseline that no matrix describes
    choose: str         # when to choose it


def mixers() -> Dict[str, MixerInfo]:
    """All registered mixers by name.

    >>> hydramix.mixers()["hydra"].cost
    'O(L)'
    """
    described = json.loads(torch.ops.hydramix.described_mixers())
    return {name: MixerInfo(name, **info) for name, info in described.items()}


class BlockModule(SpecModule):
    """forward() and materialize() of Hydra and Block."""

    def _input(self, u: Tensor, attention_mask: Optional[Tensor],
               cu_seqlens: Optional[Tensor]) -> Tensor:
        if not isinstance(u, Tensor):
            raise TypeError(f"hydramix: u must be a tensor; got {type(u).__name__}.")
        if not u.is_floating_point():
            raise TypeError(f"hydramix: u must be float32, float64 or bfloat16; got {u.dtype}.")
        d_model = self.options["block"]["d_model"]
        if u.dim() != 3 or u.shape[2] != d_model:
            raise ValueError(f"hydramix: u must be (B, L, d_model) with d_model = {d_model}; got "
                             f"{tuple(u.shape)}.")
        if u.dtype == torch.float64:
            for weight in self._weights():
                if weight.dtype != torch.float64:
                    raise TypeError(f"hydramix: u is float64, but the weights are {weight.dtype}. "
                                    "Give u.float(), or make the module float64: module.double().")
        check_mask(u, attention_mask, cu_seqlens)
        return u

    def _call(self, u: Tensor, attention_mask: Optional[Tensor],
              cu_seqlens: Optional[Tensor]) -> Tensor:
        u = self._input(u, attention_mask, cu_seqlens)
        # Under autocast the result has its dtype. bfloat16 is computed as bfloat16 inputs are;
        # float16, for which there are no kernels, in float32.
        cast = autocast_dtype(u.device)
        result = u.dtype
        if cast is not None and u.dtype != torch.float64:
            u, result = u.to(torch.bfloat16 if cast == torch.bfloat16 else torch.float32), cast
        if u.dtype == torch.float16:
            raise TypeError("hydramix: float16 is not supported. Use bfloat16 or float32, or "
                            "torch.autocast.")
        dropout = self.options["block"]["mixer_options"]["dropout"] > 0
        y = self._run("forward", u, mask=attention_mask, cu_seqlens=cu_seqlens, dropout=dropout)
        return y.to(result)

    def materialize(self, u: Tensor, attention_mask: Optional[Tensor] = None,
                    cu_seqlens: Optional[Tensor] = None) -> Tensor:
        """The matrices that forward(u) multiplies by, without dropout: (S, heads, L, L).

        S is 1 for mixers whose matrix does not depend on the input. With a mask or with packed
        sequences there is one matrix for each sequence that has tokens, with zeros after its end.
        Raises ValueError for a mixer that is no matrix.
        """
        u = self._input(u, attention_mask, cu_seqlens)
        return self._run("materialize", u, mask=attention_mask, cu_seqlens=cu_seqlens)


class Block(BlockModule):
    """The paper's block around a mixer: in_proj, convolution, mixer, gated norm, out_proj.

    Args:
        d_model: channels of the input and the output.
        mixer: a name of ``mixers()``.
        options: any option of ``hydramix help``'s block and mixer by its name: ``expand``,
            ``headdim``, ``d_conv``, ``style``, ``d_state``, ``qk_dim``, ``max_length``, ...

    >>> block = hydramix.Block(64, mixer="toeplitz_dd", headdim=16, max_length=128)
    >>> y = block(torch.randn(2, 100, 64))                # (2, 100, 64)
    >>> M = block.materialize(torch.randn(2, 100, 64))    # (2, 8, 100, 100)
    """

    def __init__(self, d_model: int, mixer: str = "hydra", *, device=None, dtype=None,
                 **options: Any) -> None:
        super().__init__()
        given = {"d_model": d_model, "mixer": mixer, **options}
        self._adopt("block", complete_options("block", given), device, dtype)

    def forward(self, u: Tensor, attention_mask: Optional[Tensor] = None,
                cu_seqlens: Optional[Tensor] = None) -> Tensor:
        """u (B, L, d_model) -> (B, L, d_model), zero where the mask is.

        Args:
            attention_mask: (B, L), 1 or True where a token is. Padding cannot influence a result.
                The tokens of a row are one sequence, also if there is padding between them.
            cu_seqlens: (sequences + 1) offsets of sequences that are packed into one row, B = 1.
        """
        return self._call(u, attention_mask, cu_seqlens)

    def extra_repr(self) -> str:
        block = self.options["block"]
        return f"d_model={block['d_model']}, mixer={block['mixer']!r}"
