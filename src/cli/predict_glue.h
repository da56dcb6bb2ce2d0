// SPDX-License-Identifier: Apache-2.0
// predict for a file as GLUE distributes it.
#pragma once

#include <string>

#include "cli/text_job.h"
#include "hydramix/text_classifier.h"

namespace hydramix {

bool is_glue_task(const std::string& name);

struct GlueFileRequest {
  std::string model;  // as the user named it
  std::string file;
  std::string task;  // that the file belongs to
};

// Writes a submission for GLUE's site; prints metrics where the file has labels.
int predict_glue_file(const GlueFileRequest& request, const TextClassifier& classifier,
                      const TextJobOptions& job);

}  // namespace hydramix
