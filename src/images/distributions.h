// SPDX-License-Identifier: Apache-2.0
// Normal and beta random numbers by exact methods: they follow the distribution up to the rounding
// of the uniform numbers they are made of.
#pragma once

#include <cstdint>
#include <span>

#include "base/random.h"

namespace hydramix {

// Mean 0, deviation 1 (Box and Muller, 1958).
double normal(Random& random);
// The same, both numbers of each pair.
void fill_normal(Random& random, std::span<float> values);

// Beta(a, a) with a > 0. For a <= 1 by Jöhnk (1964): x = u^(1/a) and y = v^(1/a) of uniform u and
// v are drawn until x + y <= 1; x / (x + y) is returned. For a > 1 as the ratio g / (g + h) of two
// gamma numbers by Marsaglia and Tsang (2000).
double symmetric_beta(Random& random, double a);

}  // namespace hydramix
