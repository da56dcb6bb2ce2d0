// SPDX-License-Identifier: Apache-2.0
// The work that a request gives to a model, and the model's results. Free of LibTorch, so that
// requests and answers can be tested and fuzzed without a model.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "hydramix/fill_mask.h"
#include "hydramix/tokenizer.h"
#include "images/augment.h"

namespace hydramix::serve {

// The properties of a model that requests and answers depend on.
struct ModelFacts {
  ModelFacts() = default;
  virtual ~ModelFacts() = default;

  std::string name;
  std::string kind;  // masked-lm, classes, score, labels, tokens, pairs, images
  std::string task, mixer, pooling;
  std::vector<std::string> labels;
  std::optional<Tokenizer> tokenizer;       // of a model of texts
  std::optional<ImageTransform> transform;  // of a model of images
  bool pairs = false;                       // was trained on pairs
  bool takes_pairs = false;                 // tells a first text from a second
  int64_t layers = 0, width = 0, parameters = 0;
  // Tokens of a text with [CLS] and [SEP]; 0: no limit. As in embed, predict and fill-mask.
  int64_t embed_length = 0, predict_length = 0, longest = 0;
  int64_t image_tokens = 0;  // of an image, whatever its size
  int64_t revision = 1;
  int64_t opened = 0;  // seconds since 1970
};

enum class WorkKind { kVectors, kTokenVectors, kOutputs, kWords, kMatrices, kImages };

struct Work {
  std::shared_ptr<const ModelFacts> model;
  WorkKind kind = WorkKind::kVectors;
  std::vector<Encoding> texts;
  int64_t top = 0;                              // kWords: of each [MASK]
  int64_t layer = 0, head = 0;                  // kMatrices, from 1; 0: thumbnails of all
  std::vector<std::vector<float>> images = {};  // kImages: (3, size, size), in place of texts

  std::size_t size() const { return texts.size() + images.size(); }
  int64_t tokens() const {
    int64_t count = std::ssize(images) * model->image_tokens;
    for (const auto& text : texts) count += std::ssize(text.ids);
    return count;
  }
  // About the memory that this, its results and their text in the answer take.
  int64_t bytes() const;
};

// An empty text, or a black image: what the model can compute if it can compute anything.
Work smallest_work(std::shared_ptr<const ModelFacts> model);

// A matrix at the size of a thumbnail: entry = byte / 127 * scale.
struct Thumbnail {
  int64_t size = 0;
  double scale = 0;
  std::vector<int8_t> bytes;  // (size, size)
};

struct Matrices {
  std::vector<std::vector<Thumbnail>> thumbnails;  // of each layer and head
  std::vector<int64_t> heads;                      // of each layer
  std::vector<double> whole;                       // (L, L), of one layer and head
  std::vector<int64_t> below, above;               // ranks
};

// The result for one text or image. Only the member of the work's kind is filled.
struct WorkResult {
  std::vector<float> vector;         // kVectors: not normalised
  std::vector<float> token_vectors;  // kTokenVectors: (tokens, width)
  std::vector<double> outputs;       // kOutputs, kImages: before softmax; tags: (tokens, tags)
  std::vector<double> shares;        // kOutputs, kImages: after softmax or sigmoid
  std::vector<std::vector<FillMask::Word>> words;  // kWords: of each [MASK]
  Matrices matrices;                               // kMatrices
};

}  // namespace hydramix::serve
