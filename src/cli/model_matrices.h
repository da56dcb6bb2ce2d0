// SPDX-License-Identifier: Apache-2.0
// hydramix matrix --model: the matrices that a trained model applies to a text or an image.
#pragma once

#include <cstdint>
#include <string>

namespace hydramix {

struct ModelMatrixOptions {
  std::string out;  // .svg, .png, .npy or .safetensors
  std::string model, which;
  std::string text, image;      // one of them: what the model reads
  int64_t layer = 0, head = 0;  // from 1; 0: all layers, and of each the head that reads most
  int64_t tokens = 64;          // of the text, at most
  double scale = 0;             // see matrix_picture()
};

// Writes the file, prints what it holds, and returns the exit code.
int save_model_matrices(const ModelMatrixOptions& options);

}  // namespace hydramix
