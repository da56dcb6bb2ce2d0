// SPDX-License-Identifier: Apache-2.0
// Included before hwy/highway.h by every kernel. These kernels use nothing that AVX3_DL adds to
// AVX3, or SSE4 to SSSE3: leaving out two targets saves a third of the code.
#pragma once

#ifdef __SANITIZE_THREAD__  // races are the same in every instruction set
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
