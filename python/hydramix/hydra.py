# SPDX-License-Identifier: Apache-2.0
"""Hydra with the interface of the published class."""

from typing import Optional, Tuple

import torch
from torch import Tensor, nn

from ._module import complete_options
from .block import BlockModule


class Hydra(BlockModule):
    """The Hydra layer: a quasiseparable matrix mixer in a Mamba-like block, bidirectional, O(L).

    Signature, parameter names and defaults are those of the published class, so that its
    ``state_dict`` loads here and this one's loads there. It needs no GPU, accepts any length, and
    masks and packed sequences are exact.

    Args:
        d_model: channels of the input and the output.
        d_state: state size of the two scans.
        d_conv: width of the depthwise convolution, which is centred.
        conv_init: initialise the convolution uniformly in [-conv_init, conv_init].
        expand: d_inner = expand * d_model.
        headdim: channels of a head; divides d_inner.
        ngroups: groups of heads that share B and C.
        dt_min, dt_max, dt_init_floor: range of the initial steps dt.
        dt_limit: dt is clamped to this range.
        learnable_init_states: the scans start in a learned state.
        activation: "swish" or "silu", which are the same.
        bias, conv_bias: biases of the projections, of the convolution.
        chunk_size, use_mem_eff_path, layer_idx: accepted for compatibility. The kernels choose
            their own chunks and always save memory.
        device, dtype: of the parameters.
    """

    def __init__(self, d_model: int, d_state: int = 64, d_conv: int = 7,
                 conv_init: Optional[float] = None, expand: float = 2, headdim: int = 64,
                 ngroups: int = 1, dt_min: float = 0.001, dt_max: float = 0.1,
                 dt_init_floor: float = 1e-4,
                 dt_limit: Tuple[float, float] = (0.0, float("inf")),
                 learnable_init_states: bool = False, activation: str = "swish",
                 bias: bool = False, conv_bias: bool = True, chunk_size: int = 256,
                 use_mem_eff_path: bool = False, layer_idx: Optional[int] = None, device=None,
                 dtype=None) -> None:
        super().__init__()
        if activation not in ("swish", "silu"):
            raise ValueError(f"hydramix: activation must be 'swish' or 'silu'; got {activation!r}.")
        self.d_model, self.d_state, self.d_conv = d_model, d_state, d_conv
        self.conv_init, self.expand, self.headdim, self.ngroups = conv_init, expand, headdim, ngroups
        self.dt_limit, self.learnable_init_states = dt_limit, learnable_init_states
        self.activation, self.chunk_size, self.layer_idx = activation, chunk_size, layer_idx
        self.use_mem_eff_path = use_mem_eff_path
        options = complete_options("block", dict(
            mixer="hydra", d_model=d_model, d_state=d_state, d_conv=d_conv, expand=expand,
            headdim=headdim, groups=ngroups, dt_min=dt_min, dt_max=dt_max,
            dt_init_floor=dt_init_floor, dt_limit_low=dt_limit[0], dt_limit_high=dt_limit[1],
            learn_initial_states=learnable_init_states, bias=bias, conv_bias=conv_bias))
        self._adopt("block", options, device, dtype)
        self.d_inner = self.out_proj.weight.shape[1]
        self.nheads = self.d_inner // headdim
        self._use_layers()
        if conv_init is not None:
            nn.init.uniform_(self.conv1d.weight, -conv_init, conv_init)
        self._mark_undecayed()

    def _use_layers(self) -> None:
        """Puts the weights into layers of PyTorch, which code that initialises or counts layers by
        their class expects. They only hold the weights."""
        for name in ("in_proj", "fc_D", "out_proj"):
            held = getattr(self, name)
            layer = nn.Linear(held.weight.shape[1], held.weight.shape[0], device="meta",
                              bias=hasattr(held, "bias"))
            setattr(self, name, self._filled(layer, held))
        held = self.conv1d
        channels, _, width = held.weight.shape
        layer = nn.Conv1d(channels, channels, width, groups=channels, padding=width // 2,
                          bias=hasattr(held, "bias"), device="meta")
        self.conv1d = self._filled(layer, held)

    @staticmethod
    def _filled(layer: nn.Module, held: nn.Module) -> nn.Module:
        for name, weight in held.named_parameters():
            setattr(layer, name, weight)
        return layer

    def _mark_undecayed(self) -> None:
        # The attribute by which the published training code leaves out weight decay.
        for name in ("A_log", "D", "dt_bias", "init_states"):
            if hasattr(self, name):
                getattr(self, name)._no_weight_decay = True

    def forward(self, u: Tensor, seq_idx: Optional[Tensor] = None,
                attention_mask: Optional[Tensor] = None,
                cu_seqlens: Optional[Tensor] = None) -> Tensor:
        """u (B, L, d_model) -> (B, L, d_model), zero where the mask is.

        Args:
            seq_idx: (B, L) integers. A row is cut into sequences where this changes.
            attention_mask: (B, L), 1 or True where a token is. Padding cannot influence a result.
                The tokens of a row are one sequence, also if there is padding between them.
            cu_seqlens: (sequences + 1) offsets of sequences that are packed into one row, B = 1.
        """
        if seq_idx is None:
            return self._call(u, attention_mask, cu_seqlens)
        if attention_mask is not None or cu_seqlens is not None:
            raise ValueError("hydramix: give seq_idx, attention_mask or cu_seqlens, not several.")
        if seq_idx.shape != u.shape[:2]:
            raise ValueError(f"hydramix: seq_idx must be (B, L) = {tuple(u.shape[:2])}; got "
                             f"{tuple(seq_idx.shape)}.")
        batch, length = seq_idx.shape
        first = torch.ones_like(seq_idx, dtype=torch.bool)
        first[:, 1:] = seq_idx[:, 1:] != seq_idx[:, :-1]
        starts = first.flatten().nonzero().flatten()
        offsets = torch.cat([starts, starts.new_tensor([batch * length])])
        rows = self._call(u.reshape(1, batch * length, u.shape[2]), None, offsets)
        return rows.reshape(u.shape)

    def extra_repr(self) -> str:
        return f"d_model={self.d_model}, d_state={self.d_state}, headdim={self.headdim}"
