# SPDX-License-Identifier: Apache-2.0
"""The built-in language: simple English, generated, for examples and tests without data."""

from typing import List, NamedTuple, Optional

import torch

from .tokenizer import Tokenizer


class Example(NamedTuple):
    text: str
    pair: Optional[str]
    label: str


def texts(count: int, first: int = 0, validation: bool = False) -> List[str]:
    """Documents number first, first + 1, ... for training, or those for validation."""
    return torch.ops.hydramix.language_texts(count, first, validation)


def tokenizer() -> Tokenizer:
    """A tokenizer with the language's vocabulary: every word is one token."""
    return Tokenizer._wrap(torch.ops.hydramix.language_tokenizer())


def sentiment(train: int, dev: int, seed: int = 1) -> "tuple[List[Example], List[Example]]":
    """Examples of the task SST-2 in the language: sentences with the label "0" or "1"."""
    paths, contents = torch.ops.hydramix.language_task("SST-2", train, dev, seed)
    files = dict(zip(paths, contents))

    def rows(name: str) -> List[Example]:
        lines = files[f"SST-2/{name}.tsv"].splitlines()[1:]
        return [Example(text, None, label) for text, label in (line.split("\t") for line in lines)]

    return rows("train"), rows("dev")
