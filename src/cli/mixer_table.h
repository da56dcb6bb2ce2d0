// SPDX-License-Identifier: Apache-2.0
// The registered mixers as in table 1 of the paper: for the terminal, and as docs/mixers.md.
#pragma once

#include <string>

namespace hydramix {

// Structure, formula, cost stated and slope measured, aligned and extendable with the paper's tick,
// source; then why ours differs from the paper.
std::string mixer_table();

// docs/mixers.md: the table, and for each mixer its formula, picture, parameters and when to choose
// it.
std::string mixers_page();

}  // namespace hydramix
