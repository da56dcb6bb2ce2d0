# SPDX-License-Identifier: Apache-2.0
"""Every mixer is a matrix: computes the matrices of some mixers, and the ranks of their blocks.

    ./hydramix python examples/python/matrices.py
"""

import torch

import hydramix

torch.manual_seed(0)
L = 32
u = torch.randn(1, L, 64, dtype=torch.float64)
print(f"{'mixer':18} {'class':18} {'cost':14} rank below the diagonal, above it")
for name in ("hydra", "semiseparable", "attention", "toeplitz_dd", "low_rank_dd"):
    info = hydramix.mixers()[name]
    block = hydramix.Block(64, name, headdim=32, d_state=4, qk_dim=4, max_length=L).double()
    with torch.no_grad():
        M = block.materialize(u)[0, 0]  # (L, L)
    below = torch.linalg.matrix_rank(M[L // 2:, :L // 2], rtol=1e-9).item()
    above = torch.linalg.matrix_rank(M[:L // 2, L // 2:], rtol=1e-9).item()
    print(f"{name:18} {info.matrix_class:18} {info.cost:14} {below}, {above}")
    if name == "hydra":  # quasiseparable: no block off the diagonal has a rank above the state size
        assert below <= 4 and above <= 4
