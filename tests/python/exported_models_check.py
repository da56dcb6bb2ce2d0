# SPDX-License-Identifier: Apache-2.0
"""Computes exported models in PyTorch and compares them with what HydraMix computed.

    exported_models_check.py FOLDER    of folders with cases.safetensors: ids, types, mask, expected

Then the PyTorch model alone: a padded batch against each sequence alone, masks with holes, gradients,
and inputs that are refused. Needs torch alone; transformers is replaced by a stub.
"""
import pathlib
import sys

import torch

import transformers_stub

transformers_stub.install()
failures = 0


def expect(condition, *what):
    global failures
    if not condition:
        failures += 1
        print("FAIL", *what)


def largest(a, b):
    return (a - b).abs().max().item()


def output(model, *inputs):
    with torch.no_grad():
        result = model(*inputs)
    return result["logits"] if "logits" in result else result["last_hidden_state"]


def check_cases(folder, model):
    cases = transformers_stub.tensors(folder / "cases.safetensors")
    ids, types, mask, expected = (cases[name] for name in ("ids", "types", "mask", "expected"))
    found = output(model, ids, mask, types)
    if found.dim() == 3:  # a row for each token
        found = found[mask != 0]
        if expected.dim() == 3:
            expected = expected[mask != 0]
    expect(found.shape == expected.shape, folder.name, "shapes", found.shape, expected.shape)
    # The largest logit is about 10; float32 has seven digits.
    expect(largest(found, expected) <= 1e-5 * max(1, expected.abs().max().item()), folder.name,
           "differs by", largest(found, expected))


def check_holes(folder, model):
    """Tokens that are scattered over a row are one sequence."""
    torch.manual_seed(1)
    L = 70
    ids = torch.randint(5, 25, (3, L))
    mask = torch.rand(3, L) < 0.6
    mask[2] = False
    mask[2, 33] = True
    whole = model.bert if hasattr(model, "bert") else model
    scattered = output(whole, ids, mask)
    for row in range(3):
        alone = output(whole, ids[row : row + 1, mask[row]])
        difference = largest(scattered[row, mask[row]], alone[0])
        expect(difference <= 1e-5, folder.name, "row", row, "of a mask with holes differs by", difference)
    embedded = whole.get_input_embeddings()(ids)
    with torch.no_grad():
        same = whole(attention_mask=mask, inputs_embeds=embedded)["last_hidden_state"]
    expect(torch.equal(same, scattered), folder.name, "inputs_embeds differ from input_ids")


def check_training(folder, model):
    """Every weight has a finite gradient, also with a row that is all padding."""
    model.train()
    ids = torch.randint(5, 25, (2, 9))
    mask = torch.ones(2, 9, dtype=torch.long)
    mask[1] = 0
    result = model(ids, mask)
    value = result["logits"] if "logits" in result else result["last_hidden_state"]
    value[0].pow(2).sum().backward()
    for name, weight in model.named_parameters():
        fine = weight.grad is not None and bool(torch.isfinite(weight.grad).all())
        unused = name.endswith("token_type_embeddings.weight") or "pooler" in name or "decoder" in name
        expect(fine or unused, folder.name, name, "has no finite gradient")
    model.eval()


def check_refusals(folder, model):
    ids = torch.randint(5, 25, (2, 9))
    for what, call in (
        ("no input", lambda: model()),
        ("a mask of another shape", lambda: model(ids, torch.ones(2, 8))),
        ("ids and embeddings", lambda: model(ids, inputs_embeds=torch.ones(2, 9, 16))),
    ):
        try:
            call()
            expect(False, folder.name, what, "was accepted")
        except ValueError:
            pass


def check_config(folder, model):
    """The sections of HydraMix follow what transformers changes."""
    config = model.config
    config.vocab_size += 3
    written = config.to_dict()
    expect(written["model"]["vocab"] == config.vocab_size, folder.name, "keeps its old vocabulary")
    section = written.get("classifier")
    if config.architectures == ["HydraMixForMaskedLM"]:
        expect(section is None, folder.name, "is a classifier")
    elif section["labels"]:
        config.id2label = {i: f"new {i}" for i in config.id2label}
        expect(config.to_dict()["classifier"]["labels"][0] == "new 0", folder.name, "keeps its labels")
    config.set_classifier("pairs")
    section = config.to_dict()["classifier"]
    expect(section["outputs"] == 0 and section["labels"] == [], folder.name, "is not an encoder")
    config.id2label = {0: "a", 1: "b", 2: "c"}
    config.set_classifier("labels")
    section = config.to_dict()["classifier"]
    expect(section["outputs"] == 3 and section["thresholds"] == [0.5] * 3, folder.name, section)


def main():
    folders = sorted(path.parent for path in pathlib.Path(sys.argv[1]).glob("*/config.json"))
    for folder in folders:
        model = transformers_stub.open_folder(folder)
        check_cases(folder, model)
        check_holes(folder, model)
        check_training(folder, model)
        check_refusals(folder, model)
        check_config(folder, model)
    print(f"{len(folders)} models, {failures} failures")
    sys.exit(1 if failures or not folders else 0)


main()
