// SPDX-License-Identifier: Apache-2.0
// Small models for tests.
#pragma once

#include "hydramix/bert.h"
#include "hydramix/image_model.h"

namespace hydramix::test {

// Two layers of d_model 16 over 30 words; four heads.
inline BertOptions tiny_bert(const std::string& mixer) {
  BertOptions options;
  options.vocab = 30;
  options.layers = 2;
  options.block.mixer = mixer;
  options.block.d_model = 16;
  options.block.headdim = 8;
  options.block.mixer_options = {.qk_dim = 4, .d_state = 8, .max_length = 16};
  return options;
}

// Two layers of d_model 16 over 2 x 2 patches of 4 x 4 pixels; 3 classes.
inline ImageModelOptions tiny_image_model(const std::string& mixer) {
  ImageModelOptions options;
  options.size = 8;
  options.patch = 4;
  options.classes = 3;
  options.layers = 2;
  options.initial_deviation = 0.2;
  options.block = tiny_bert(mixer).block;
  return options;
}

}  // namespace hydramix::test
