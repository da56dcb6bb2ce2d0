# SPDX-License-Identifier: Apache-2.0
"""Hydra as a layer of a PyTorch model, with padding: one changed import line replaces the original.

    ./hydramix python examples/python/drop_in.py
"""

import torch

from hydramix import Hydra  # in place of: from hydra import Hydra

torch.manual_seed(0)
layer = Hydra(d_model=128, d_state=32, d_conv=7, expand=2, headdim=32)
u = torch.randn(2, 50, 128)

# The second sequence has 30 tokens; what its padding holds does not matter.
mask = torch.ones(2, 50, dtype=torch.bool)
mask[1, 30:] = False
u[1, 30:] = float("nan")
y = layer(u, attention_mask=mask)
alone = layer(u[1:, :30])
print("largest difference from the sequence alone:", (y[1, :30] - alone[0]).abs().max().item())

# The same sequences end to end, without padding.
packed = torch.cat([u[0], u[1, :30]])[None]
y_packed = layer(packed, cu_seqlens=torch.tensor([0, 50, 80]))
print("largest difference when packed:", (y_packed[0, 50:] - alone[0]).abs().max().item())

# It trains as any module.
optimizer = torch.optim.AdamW(layer.parameters(), lr=1e-2)
target = torch.randn(2, 50, 128)
u = torch.randn(2, 50, 128)
first = None
for step in range(20):
    loss = (layer(u) - target).square().mean()
    first = first or loss.item()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {first:.3f} -> {loss.item():.3f}")
assert loss.item() < 0.9 * first
