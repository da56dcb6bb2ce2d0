// SPDX-License-Identifier: Apache-2.0
// A model for tests of the server that computes nothing: its results follow from the token ids.
#pragma once

#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "serve/http_error.h"
#include "serve/text_routes.h"
#include "serve/work.h"

namespace hydramix::test {

// The special tokens, and the words w0 ... w19.
inline Tokenizer fake_tokenizer() {
  std::vector<std::string> tokens{"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};
  for (int i = 0; i < 20; ++i) tokens.push_back("w" + std::to_string(i));
  return Tokenizer::from_tokens(tokens, {}, "test");
}

inline std::shared_ptr<serve::ModelFacts> fake_model(const std::string& kind = "masked-lm") {
  auto model = std::make_shared<serve::ModelFacts>();
  model->name = "fake";
  model->kind = kind;
  if (kind == "images") {
    AugmentOptions options;
    options.size = 4;
    model->transform.emplace(options);
    model->image_tokens = 4;
    model->labels = {"no", "yes"};
    return model;
  }
  model->tokenizer = fake_tokenizer();
  model->mixer = "hydra";
  model->pooling = "mean";
  model->width = 2;
  model->layers = 1;
  model->embed_length = model->predict_length = 8;
  model->takes_pairs = true;
  if (kind == "classes" || kind == "labels" || kind == "tokens") model->labels = {"no", "yes"};
  return model;
}

// (tokens, last id before [SEP]) as the vector, and so on.
inline serve::WorkResult fake_result(const serve::Work& work, const Encoding& text) {
  const auto tokens = static_cast<float>(text.ids.size());
  const auto last = static_cast<float>(text.ids[text.ids.size() - 2]);
  serve::WorkResult result;
  switch (work.kind) {
    case serve::WorkKind::kVectors:
      result.vector = {tokens, last};
      break;
    case serve::WorkKind::kTokenVectors:
      for (const auto id : text.ids)
        result.token_vectors.insert(result.token_vectors.end(), {static_cast<float>(id), 0.5F});
      break;
    case serve::WorkKind::kOutputs:
      for (std::size_t i = 0; i < (work.model->kind == "tokens" ? text.ids.size() : 1); ++i) {
        result.outputs.insert(result.outputs.end(), {last, -last});
        result.shares.insert(result.shares.end(), {0.25, 0.75});
      }
      break;
    case serve::WorkKind::kWords:
      for (const auto id : text.ids)
        if (id == work.model->tokenizer->special().mask)
          result.words.push_back({{"w1", 6, 0.5}, {"w2", 7, 0.25}});
      break;
    case serve::WorkKind::kImages:
      break;
    case serve::WorkKind::kMatrices: {
      const std::size_t L = text.ids.size();
      result.matrices.heads = {2};
      if (work.layer == 0) {
        result.matrices.thumbnails = {{{.size = 1, .scale = 2, .bytes = {127}}}};
        break;
      }
      for (std::size_t i = 0; i < L * L; ++i)
        result.matrices.whole.push_back(static_cast<double>(i) + 1);
      result.matrices.below = result.matrices.above = std::vector<int64_t>(L - 1, 1);
      break;
    }
  }
  return result;
}

inline std::vector<serve::WorkResult> fake_results(const serve::Work& work) {
  std::vector<serve::WorkResult> results;
  for (const auto& text : work.texts) results.push_back(fake_result(work, text));
  // The mean of red, and that of green.
  for (const auto& image : work.images) {
    const auto plane = static_cast<std::ptrdiff_t>(image.size() / 3);
    const double red = std::accumulate(image.begin(), image.begin() + plane, 0.0);
    const double green = std::accumulate(image.begin() + plane, image.begin() + 2 * plane, 0.0);
    serve::WorkResult result;
    result.outputs =
        result.shares = {red / static_cast<double>(plane), green / static_cast<double>(plane)};
    results.push_back(std::move(result));
  }
  return results;
}

inline std::vector<std::vector<serve::WorkResult>> fake_compute(
    std::span<const serve::Work* const> works) {
  std::vector<std::vector<serve::WorkResult>> results;
  for (const auto* work : works) results.push_back(fake_results(*work));
  return results;
}

inline serve::RouteContext fake_context(const std::string& kind = "masked-lm") {
  serve::RouteContext context;
  context.prompts = {{"query", "w7 "}};
  context.model = [model = fake_model(kind)](const std::string& name, std::string_view) {
    if (!name.empty() && name != "fake") throw serve::not_found("no model ", name);
    return model;
  };
  return context;
}

}  // namespace hydramix::test
