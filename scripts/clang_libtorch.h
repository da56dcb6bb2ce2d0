// SPDX-License-Identifier: Apache-2.0
// Lets clang read LibTorch 1.13 under C++20: scripts/check_all.sh includes this file before all
// others. Headers of LibTorch have vectors of types that are still incomplete there. libstdc++ 12
// makes the functions of std::vector constexpr in C++20, and clang instantiates constexpr functions
// so early that it needs the complete types; GCC waits. Here std::vector loses its constexpr. The
// function that fills a vector<bool> was declared constexpr before, so its definition gets another
// name, and the linker finds it under the declared one.
#pragma once

#if defined(__clang__) && __cplusplus >= 202002L
#include <string>
#if _GLIBCXX_RELEASE == 12
#include <bits/stl_algobase.h>

#include <bits/allocator.h>
#include <bits/range_access.h>
#include <bits/stl_construct.h>
#include <bits/stl_uninitialized.h>
#include <debug/assertions.h>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR
#include <bits/stl_vector.h>
#define __fill_a1 __fill_a1_of_bits
#include <bits/stl_bvector.h>
#undef __fill_a1
#include <bits/vector.tcc>
#undef _GLIBCXX20_CONSTEXPR
#define _GLIBCXX20_CONSTEXPR constexpr
#include <vector>
namespace std {
__attribute__((used)) inline void __fill_a1_declared(
    _Bit_iterator first, _Bit_iterator last,
    const bool& value) __asm__("_ZSt9__fill_a1St13_Bit_iteratorS_RKb");
inline void __fill_a1_declared(_Bit_iterator first, _Bit_iterator last, const bool& value) {
  __fill_a1_of_bits(first, last, value);
}
}  // namespace std
#endif
#endif
