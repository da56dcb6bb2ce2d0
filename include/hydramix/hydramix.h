// SPDX-License-Identifier: Apache-2.0
// All of HydraMix: sequence mixers as matrices, the block around them, models, weights, tokenizer,
// options.
#pragma once

#include "hydramix/bert.h"
#include "hydramix/bert_encoder.h"
#include "hydramix/block.h"
#include "hydramix/dropout_key.h"
#include "hydramix/error.h"
#include "hydramix/fill_mask.h"
#include "hydramix/finite_check.h"
#include "hydramix/graphed_encoder.h"
#include "hydramix/large_pages.h"
#include "hydramix/layout.h"
#include "hydramix/mixer.h"
#include "hydramix/mlp.h"
#include "hydramix/model_folder.h"
#include "hydramix/options.h"
#include "hydramix/registry.h"
#include "hydramix/safetensors.h"
#include "hydramix/sequence_classifier.h"
#include "hydramix/tensor_file.h"
#include "hydramix/text_classifier.h"
#include "hydramix/text_embedder.h"
#include "hydramix/text_model.h"
#include "hydramix/text_tagger.h"
#include "hydramix/tokenizer.h"
#include "hydramix/weights.h"
