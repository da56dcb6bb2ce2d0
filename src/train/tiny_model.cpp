// SPDX-License-Identifier: Apache-2.0
#include "train/tiny_model.h"

#include "language/language_documents.h"

namespace hydramix {

PretrainOptions tiny_pretraining() {
  PretrainOptions options;
  options.out = "runs/tiny";
  options.model.vocab = language_tokenizer().size();
  options.model.layers = 2;
  options.model.initial_deviation = 0.07;  // BERT's 0.02 is for a d_model of 768
  auto& block = options.model.block;
  block.mixer = "hydra";
  block.d_model = 64;
  block.expand = 4;
  block.headdim = 32;
  block.d_conv = 7;
  block.mixer_options.d_state = 16;
  options.data.language.sorts = 1;
  options.data.sequences.mask = 0.25;
  auto& train = options.train;
  train.steps = 1000;
  train.batch = train.micro_batch = 32;
  train.optimizer.rate = 4e-3;
  train.evaluate_every = train.checkpoint_every = 250;
  return options;
}

}  // namespace hydramix
