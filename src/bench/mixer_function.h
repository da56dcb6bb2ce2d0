// SPDX-License-Identifier: Apache-2.0
// A mixer alone, mix(x, params) on random x and params, its oracle, and the product that feeds it.
#pragma once

#include "bench/suite.h"

namespace hydramix::bench {

// x (B, L, H, P), params (B, L, params_width), and the mixer's own weights.
Function mixer_function(const std::shared_ptr<Mixer>& mixer, const Subject& subject);
// in_proj of a block of this d_model around the mixer, for the same number of tokens.
Function projection_gemm(const Mixer& mixer, const Subject& subject);
// mix() in float32 against the materialised matrix in float64; where there is none, against mix()
// in float64.
double verify_mixer(const std::string& name, const BlockOptions& options, const Subject& subject,
                    double tolerance);

}  // namespace hydramix::bench
