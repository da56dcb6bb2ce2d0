#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# install.sh PYTHON SOURCE BUILD: pip installs the package into a fresh environment, from an existing build and without a
# network, and uses it there.
set -euo pipefail
python=$1 source=$2 build=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
skip() { echo "skipped: $*"; exit 77; }
"$python" -c 'import torch' 2>/dev/null || skip "$python has no PyTorch"
"$python" -c 'import setuptools, wheel' 2>/dev/null || skip "$python has no setuptools and wheel"
"$python" -m venv --system-site-packages "$work/venv" 2>/dev/null || skip "$python cannot make environments (python3-venv)"

# A copy, because setuptools writes into the source folder.
mkdir "$work/source"
cp -r "$source"/{python,pyproject.toml,setup.py,README.md,CMakeLists.txt} "$work/source/"
cd "$work/source"
HYDRAMIX_BUILD=$build "$work/venv/bin/python" -m pip install . --no-build-isolation --no-index --no-deps -q
cd "$work"
unset PYTHONPATH HYDRAMIX_LIBRARY
"$work/venv/bin/python" - <<'PYTHON'
import torch, hydramix
assert "site-packages" in hydramix.__file__, hydramix.__file__
y = hydramix.Hydra(64)(torch.randn(1, 9, 64))
print("installed", hydramix.__version__, tuple(y.shape))
PYTHON
