// SPDX-License-Identifier: Apache-2.0
// LibTorch, and the one place that knows which version it is. Everything else includes this header
// and is written once for LibTorch 1.13 (Debian 12) up to 2.x.
#pragma once

#include <torch/torch.h>
#include <torch/version.h>

static_assert(TORCH_VERSION_MAJOR > 1 || TORCH_VERSION_MINOR >= 13,
              "HydraMix needs LibTorch 1.13 or later");
