// SPDX-License-Identifier: Apache-2.0
// Large tensors on large pages of memory.
#pragma once

namespace hydramix {

// From now on, tensors of 4 MiB and more that LibTorch allocates on the CPU lie on pages of 2 MiB
// where the kernel has them (Linux with transparent huge pages, `madvise` or `always`). A product
// that strides over a large tensor touches a new 4 KiB page every few rows, and looking these up
// costs a Hydra block a few per cent of its time (docs/performance.md). The setting holds for the
// whole process, so a library does not choose it: the command does, and a program that embeds
// HydraMix may.
void use_large_pages();

}  // namespace hydramix
