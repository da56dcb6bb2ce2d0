// SPDX-License-Identifier: Apache-2.0
// The instruction sets that the CPU kernels are compiled for. The best one of this machine is used;
// HYDRAMIX_ISA (AVX3, AVX2, SSE4, ...) forces another, to test or to compare.
#pragma once

#include <string>
#include <vector>

namespace hydramix::kernels {

// The instruction sets of this machine that the kernels are compiled for, best first.
std::vector<std::string> instruction_sets();
// The one that kernels use.
std::string instruction_set();
// Uses this one from now on; "" is the best one. Throws UsageError when the machine lacks it. Not
// to be called while kernels run.
void use_instruction_set(const std::string& name);
// Uses the instruction set that HYDRAMIX_ISA names. Only the first call has an effect.
void use_instruction_set_of_environment();

}  // namespace hydramix::kernels
