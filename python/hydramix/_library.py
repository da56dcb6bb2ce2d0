# SPDX-License-Identifier: Apache-2.0
"""Finds and loads libhydramix_torch.so, and refuses one that was built for another PyTorch: loading
it would crash the interpreter. The library is in this folder, or in $HYDRAMIX_LIBRARY."""

import json
import os
from pathlib import Path

import torch

NAME = "libhydramix_torch.so"


def _folder() -> Path:
    candidates = [Path(__file__).parent]
    if "HYDRAMIX_LIBRARY" in os.environ:
        candidates.insert(0, Path(os.environ["HYDRAMIX_LIBRARY"]))
    for folder in candidates:
        if (folder / NAME).is_file():
            return folder
    raise ImportError(
        f"hydramix: {NAME} is missing in {' and '.join(map(str, candidates))}. Start Python with "
        "./hydramix python, or install the package with pip install . --no-build-isolation")


def _release(version: str) -> str:
    """1.13 of 1.13.0a0, 2.9 of 2.9.1+cu130: releases of one minor version are compatible."""
    return ".".join(version.split("+")[0].split(".")[:2])


def check_built_for(built: dict, torch_version: str, cxx11_abi: bool) -> None:
    """Raises ImportError unless a library built for `built` can run in this PyTorch."""
    advice = "Build hydramix again with this Python: pip install . --no-build-isolation"
    if _release(built["torch"]) != _release(torch_version):
        raise ImportError(f"hydramix was built for PyTorch {built['torch']}, but this is PyTorch "
                          f"{torch_version}. {advice}")
    if bool(built["cxx11_abi"]) != bool(cxx11_abi):
        raise ImportError(f"hydramix was built with _GLIBCXX_USE_CXX11_ABI={built['cxx11_abi']}, "
                          f"but PyTorch with {int(cxx11_abi)}. {advice}")


FOLDER = _folder()
BUILT_FOR = json.loads((FOLDER / "built_for.json").read_text())
VERSION: str = BUILT_FOR["version"]
check_built_for(BUILT_FOR, torch.__version__, torch._C._GLIBCXX_USE_CXX11_ABI)
torch.ops.load_library(str(FOLDER / NAME))

from . import _operators  # noqa: E402,F401  the operators' shapes
