# SPDX-License-Identifier: Apache-2.0
"""Fine-tunes a pretrained model to tell praise from criticism.

    ./hydramix python examples/python/classify.py MODEL [FOLDER] [EPOCHS]

MODEL is a folder of train_mlm.py or of hydramix pretrain. The result opens in the command too:
hydramix predict FOLDER.
"""

import sys

import torch

import hydramix

start = sys.argv[1]
folder = sys.argv[2] if len(sys.argv) > 2 else "runs/python_classifier"
epochs = int(sys.argv[3]) if len(sys.argv) > 3 else 3
torch.manual_seed(0)
train, dev = hydramix.language.sentiment(1000, 200)
model = hydramix.HydraForSequenceClassification.from_pretrained(
    start, labels=["critical", "praising"], pooling="mean")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)


def encode(examples):
    batch = model.tokenizer([example.text for example in examples])
    return batch, torch.tensor([int(example.label) for example in examples])


for epoch in range(epochs):
    model.train()
    for rows in torch.randperm(len(train)).split(16):
        batch, labels = encode([train[row] for row in rows])
        loss = model(**batch, labels=labels).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    batch, labels = encode(dev)
    with torch.no_grad():
        right = (model(**batch).logits.argmax(1) == labels).float().mean().item()
    print(f"epoch {epoch}: {100 * right:.1f} % of the validation set", flush=True)

model.save_pretrained(folder)
batch = model.tokenizer("the film was really lovely .")
print(model.labels[model(**batch).logits.argmax().item()])
