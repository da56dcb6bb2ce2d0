#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Reads a model of ours with the Python libraries that its users have, and their files with ours.

A tiny model is trained, then:
  1. safetensors, torch.load and transformers' tokenizer read what hydramix wrote, checksums and all;
  2. a model folder whose weights and tokenizer those libraries saved again still opens and predicts the same;
  3. the tokenizer gives the same ids in both.
usage: scripts/python_readers_check.py [COMMAND]     default: build/cuda/bin/hydramix
A library that is not installed is named and left out.
"""
import importlib
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile

TEXTS = ["the dog near the cats barks .", "Unseen wörds, and 42 numbers!", "a", "\u4f60\u597d [MASK] x"]


def library(name):
    try:
        module = importlib.import_module(name)
    except ImportError:
        print(f"{name} is not installed: left out")
        return None
    print(f"{name} {module.__version__}")
    return module


def main():
    command = str(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else "build/cuda/bin/hydramix").resolve())
    folder = pathlib.Path(tempfile.mkdtemp())

    def hydramix(*arguments, text=None):
        done = subprocess.run([command, *map(str, arguments)], input=text, text=True, capture_output=True)
        if done.returncode:
            raise SystemExit(f"hydramix {' '.join(map(str, arguments))} failed:\n{done.stderr}")
        return done.stdout

    def embeddings(model):
        return hydramix("embed", "-", "--model", model, "--device", "cpu", text="\n".join(TEXTS) + "\n")

    try:
        hydramix("pretrain", "--device", "cpu", "--model.vocab", 300, "--model.layers", 2, "--model.block.d-model", 64,
                 "--data.evaluation-documents", 20, "--data.language-documents", 200, "--train.steps", 4,
                 "--train.batch", 8, "--out", folder / "run")
        model = folder / "run" / "model"
        hydramix("convert", model, folder / "weights.pt")
        ours = embeddings(model)
        torch, safetensors, transformers = map(library, ("torch", "safetensors", "transformers"))

        again = folder / "again"
        shutil.copytree(model, again)
        if safetensors and torch:
            from safetensors import safe_open
            from safetensors.torch import load_file, save_file
            tensors = load_file(model / "model.safetensors")
            with safe_open(model / "model.safetensors", "pt") as file:
                metadata = file.metadata()
            pickled = torch.load(folder / "weights.pt", weights_only=True)
            assert set(tensors) == set(pickled), set(tensors) ^ set(pickled)
            assert all(torch.equal(tensors[name], pickled[name]) for name in tensors)
            print(f"safetensors and torch.load: {len(tensors)} equal tensors, metadata {sorted(metadata)}")
            save_file(tensors, again / "model.safetensors", metadata={"format": "pt"})
        if transformers:
            tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_file=str(model / "tokenizer.json"))
            lines = hydramix("tokenizer", "encode", "--vocab", model / "tokenizer.json", text="\n".join(TEXTS) + "\n")
            for text, line in zip(TEXTS, lines.splitlines(), strict=True):
                expected = tokenizer(text)["input_ids"]
                assert json.loads(line)["ids"] == expected, (text, line, expected)
            tokenizer.save_pretrained(again)
            print(f"transformers' tokenizer: the same ids for {len(TEXTS)} texts")
        # The config as another JSON writer would write it.
        config = json.loads((again / "config.json").read_text())
        (again / "config.json").write_text(json.dumps(config, sort_keys=True))
        assert embeddings(again) == ours
        hydramix("verify", again)
        print("a folder that these libraries saved again gives the same embeddings")
    finally:
        shutil.rmtree(folder)


main()
