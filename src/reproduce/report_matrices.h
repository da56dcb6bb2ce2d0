// SPDX-License-Identifier: Apache-2.0
// The section of report.html with the learned matrices of a table's rows.
#pragma once

#include <string>

#include "reproduce/report.h"

namespace hydramix {

// "Toeplitz DD": the label of a row, with its mark where two rows have one label.
std::string row_title(const ReportRow& row);

// Empty where no row has a finished model whose mixer is a matrix.
std::string matrices_html(const Report& report, const ReportTable& table);

}  // namespace hydramix
