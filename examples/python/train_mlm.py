# SPDX-License-Identifier: Apache-2.0
"""Pretrains a small masked-language model on the built-in language, in plain PyTorch.

    ./hydramix python examples/python/train_mlm.py [FOLDER] [STEPS]

The folder opens in the command too: hydramix fill-mask FOLDER.
"""

import sys

import torch

import hydramix

folder = sys.argv[1] if len(sys.argv) > 1 else "runs/python_mlm"
steps = int(sys.argv[2]) if len(sys.argv) > 2 else 300
torch.manual_seed(0)
tokenizer = hydramix.language.tokenizer()
model = hydramix.HydraForMaskedLM(len(tokenizer), tokenizer=tokenizer, layers=2, d_model=64,
                                  headdim=32, d_state=16, d_conv=3)
optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, steps)

for step in range(steps):
    batch = tokenizer(hydramix.language.texts(16, first=16 * step))
    ids, mask = batch["input_ids"], batch["attention_mask"]
    hidden = (torch.rand(ids.shape) < 0.3) & (mask == 1) & (ids > max(tokenizer.special_ids))
    labels = ids.masked_fill(~hidden, -100)
    loss = model(ids.masked_fill(hidden, tokenizer.mask_id), mask, labels=labels).loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    schedule.step()
    if step % 20 == 0 or step == steps - 1:
        print(f"step {step}: loss {loss.item():.3f}", flush=True)

model.save_pretrained(folder)
print(f"saved {folder}")
