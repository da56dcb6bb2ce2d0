// SPDX-License-Identifier: Apache-2.0
#include "cli/output_path.h"

#include "hydramix/error.h"

namespace hydramix {

void check_not_an_input(const char* option, const std::filesystem::path& out,
                        const std::vector<std::filesystem::path>& inputs) {
  std::error_code ignored;  // a path that does not exist is no other file
  for (const auto& input : inputs)
    HYDRAMIX_CHECK_USAGE(!std::filesystem::equivalent(out, input, ignored), option, " ",
                         out.string(), ": is the input ", input.string(),
                         ", which would be lost. Name another file to write.");
}

}  // namespace hydramix
