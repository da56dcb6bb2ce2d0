// SPDX-License-Identifier: Apache-2.0
// Included before hwy/highway.h by every kernel. What AVX3_DL adds to AVX3, and SSE4 to SSSE3, is
// nothing these kernels use: leaving out two targets saves a third of the code.
#pragma once

#ifdef __SANITIZE_THREAD__  // races are the same in every instruction set
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_SSE4 | HWY_AVX3 | HWY_AVX3_DL)
#else
#define HWY_DISABLED_TARGETS (HWY_SSSE3 | HWY_AVX3_DL)
#endif
