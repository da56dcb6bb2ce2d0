# SPDX-License-Identifier: Apache-2.0
"""Files of tensors."""

import errno
import json
import os
from typing import Dict, Tuple, Union

import torch
from torch import Tensor

Path = Union[str, "os.PathLike[str]"]


def existing(path: Path) -> str:
    """The path as a text. Raises FileNotFoundError."""
    text = os.fspath(path)
    if not os.path.exists(text):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), text)
    return text


def load_file(path: Path) -> Tuple[Dict[str, Tensor], Dict[str, str]]:
    """Tensors by name, and metadata, of a .safetensors file, a file of torch.save or a model folder.

    Nothing in a pickle is run. Raises RuntimeError for a damaged file.
    """
    names, tensors, metadata = torch.ops.hydramix.load_file(existing(path))
    return dict(zip(names, tensors)), json.loads(metadata)
