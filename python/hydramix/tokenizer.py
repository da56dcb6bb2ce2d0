# SPDX-License-Identifier: Apache-2.0
"""BERT's WordPiece tokenizer."""

import os
from typing import Dict, List, NamedTuple, Optional, Sequence, Union

import torch
from torch import Tensor

from .files import Path, existing


class Packed(NamedTuple):
    """Texts end to end, without padding."""

    input_ids: Tensor       # (1, n)
    token_type_ids: Tensor  # (1, n)
    cu_seqlens: Tensor      # (texts + 1)


class Tokenizer:
    """BERT's WordPiece, uncased or cased. Ids equal those of Hugging Face's tokenizer.

    Batches are encoded in threads, and other Python threads run meanwhile.

    >>> tokenizer = hydramix.Tokenizer.from_file("tokenizer.json")
    >>> batch = tokenizer(["a text", "another"])      # input_ids, token_type_ids, attention_mask
    >>> logits = model(**batch)
    """

    def __init__(self, tokens: Sequence[str], lowercase: bool = True) -> None:
        """A tokenizer with these tokens; token k has id k. `lowercase` also strips accents."""
        if isinstance(tokens, str):
            raise TypeError("Tokenizer: expected a list of tokens; got a text. For a file use "
                            "Tokenizer.from_file.")
        text = "".join(token + "\n" for token in tokens)
        self._tokenizer = torch.classes.hydramix.Tokenizer(text, lowercase, "the tokens")

    @classmethod
    def _wrap(cls, tokenizer) -> "Tokenizer":
        made = cls.__new__(cls)
        made._tokenizer = tokenizer
        return made

    @classmethod
    def from_file(cls, path: Path, lowercase: bool = True) -> "Tokenizer":
        """Loads a tokenizer.json, or a vocab.txt, to which `lowercase` applies."""
        return cls._wrap(torch.ops.hydramix.load_tokenizer(existing(path), lowercase))

    @classmethod
    def from_pretrained(cls, folder: Path) -> "Tokenizer":
        """The tokenizer of a model folder."""
        return cls.from_file(os.path.join(os.fspath(folder), "tokenizer.json"))

    def __reduce__(self):
        return _restored, (self._tokenizer.text(), self._tokenizer.lowercase())

    def __deepcopy__(self, memo) -> "Tokenizer":
        return self  # immutable

    def save(self, path: Path) -> None:
        """Writes a tokenizer.json, which Hugging Face reads too."""
        self._tokenizer.save(os.fspath(path))

    def _encode(self, texts, pairs, max_length: int, threads: int):
        texts = [texts] if isinstance(texts, str) else list(texts)
        pairs = [pairs] if isinstance(pairs, str) else list(pairs or [])
        for text in texts + pairs:
            if not isinstance(text, str):
                raise TypeError(f"Tokenizer: expected texts; got {type(text).__name__}.")
        if pairs and len(pairs) != len(texts):
            raise ValueError(f"Tokenizer: {len(texts)} texts and {len(pairs)} second texts; expected "
                             "as many.")
        if max_length < 0 or not 0 <= threads <= 1024:
            raise ValueError("Tokenizer: max_length is 0 (no limit) or more, and threads 0 (one per "
                             f"core) to 1024; got {max_length} and {threads}.")
        return self._tokenizer.encode(texts, pairs, max_length, threads)

    def __call__(self, texts: Union[str, Sequence[str]],
                 pairs: Optional[Union[str, Sequence[str]]] = None, max_length: int = 0,
                 threads: int = 0, return_offsets: bool = False) -> Dict[str, Tensor]:
        """Encodes texts, or pairs of texts, with [CLS] and [SEP], padded to the longest of them.

        Args:
            max_length: tokens after which a text is truncated; 0: no limit.
            threads: 0: one per core.
            return_offsets: also return `offset_mapping` (B, L, 2): the characters of each token.

        Returns input_ids, token_type_ids and attention_mask, (B, L) int64: the arguments of a model.
        """
        ids, types, offsets, places = self._encode(texts, pairs, max_length, threads)
        lengths = offsets.diff()
        longest = int(lengths.max()) if lengths.numel() else 0
        mask = torch.arange(longest) < lengths[:, None]
        batch = {"input_ids": torch.full(mask.shape, self.pad_id, dtype=torch.int64),
                 "token_type_ids": torch.zeros(mask.shape, dtype=torch.int64),
                 "attention_mask": mask.to(torch.int64)}
        batch["input_ids"][mask] = ids
        batch["token_type_ids"][mask] = types
        if return_offsets:
            batch["offset_mapping"] = torch.zeros((*mask.shape, 2), dtype=torch.int64)
            batch["offset_mapping"][mask] = places
        return batch

    def pack(self, texts: Sequence[str], pairs: Optional[Sequence[str]] = None,
             max_length: int = 0, threads: int = 0) -> Packed:
        """The same end to end instead of padded: ``model(**tokenizer.pack(texts)._asdict())``."""
        ids, types, offsets, _ = self._encode(texts, pairs, max_length, threads)
        return Packed(ids[None], types[None], offsets)

    def decode(self, ids: Union[Tensor, Sequence[int]], skip_special: bool = True) -> str:
        """The text of a sequence of ids."""
        values: List[int] = ids.tolist() if isinstance(ids, Tensor) else list(ids)
        for id in values:
            self._check_id(id)
        return self._tokenizer.decode(values, skip_special)

    def _check_id(self, id: int) -> None:
        if not 0 <= id < len(self):
            raise ValueError(f"Tokenizer: ids are 0 to {len(self) - 1}; got {id}.")

    def token(self, id: int) -> str:
        """The token of an id."""
        self._check_id(id)
        return self._tokenizer.token(id)

    def id(self, token: str) -> int:
        """The id of a token. Raises KeyError if the vocabulary does not have it."""
        found = self._tokenizer.find(token)
        if found < 0:
            raise KeyError(token)
        return found

    def __len__(self) -> int:
        return self._tokenizer.size()

    @property
    def pad_id(self) -> int:
        return self._tokenizer.special()[0]

    @property
    def mask_id(self) -> int:
        return self._tokenizer.special()[4]

    @property
    def special_ids(self) -> List[int]:
        """Ids of [PAD], [UNK], [CLS], [SEP] and [MASK]."""
        return self._tokenizer.special()

    def fingerprint(self) -> str:
        """Hash of the tokens and options, 16 hex digits."""
        return self._tokenizer.fingerprint()

    def __repr__(self) -> str:
        return f"Tokenizer({len(self)} tokens, {self.fingerprint()})"


def _restored(text: str, lowercase: bool) -> Tokenizer:
    return Tokenizer._wrap(
        torch.classes.hydramix.Tokenizer(text, lowercase, "a pickled tokenizer"))
