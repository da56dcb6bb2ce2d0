#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# run.sh PYTHON BUILD SCRIPT [...]: runs a script with `import hydramix`. Exits with 77, which CTest reads as skipped, if
# this Python has no PyTorch.
set -euo pipefail
python=$1 build=$2
shift 2
root=$(cd "$(dirname "$0")/../.." && pwd)
"$python" -c 'import torch' 2>/dev/null ||
  { echo "skipped: $python has no PyTorch; on Debian: apt-get install python3-torch"; exit 77; }
export HYDRAMIX_LIBRARY=$build/python PYTHONPATH=$root/python PYTHONDONTWRITEBYTECODE=1
exec "$python" "$@"
