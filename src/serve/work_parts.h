// SPDX-License-Identifier: Apache-2.0
// A large request is computed in parts, so that smaller ones have their turn between them.
#pragma once

#include <deque>

#include "serve/work.h"

namespace hydramix::serve {

// The texts or images of the work, in order, in parts of at most `most_tokens` tokens. One that is
// longer is a part of its own.
std::deque<Work> parts_of(Work work, int64_t most_tokens);

}  // namespace hydramix::serve
