// SPDX-License-Identifier: Apache-2.0
#include "serve/served_model.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "hydramix/text_embedder.h"
#include "models/block_ranks.h"
#include "models/encoded_texts.h"
#include "models/folder_files.h"
#include "models/layer_matrices.h"
#include "models/text_model.h"
#include "serve/http_error.h"
#include "serve/served_images.h"
#include "train/trained_model.h"

namespace hydramix::serve {
namespace {

constexpr int64_t kThumbnailSize = 32;
constexpr int64_t kMostRankTokens = 128;  // 2 (L - 1) singular value decompositions

int64_t shorter(int64_t length, int64_t longest) {
  return longest > 0 && (length == 0 || longest < length) ? longest : length;
}

// M (L, L) float64. Blocks of a longer matrix become their entry of largest magnitude.
Thumbnail thumbnail_of(const torch::Tensor& M) {
  const int64_t L = M.size(0), size = std::min(L, kThumbnailSize);
  const double* entries = M.data_ptr<double>();
  std::vector<double> largest(static_cast<std::size_t>(size * size), 0.0);
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < L; ++j) {
      auto& entry = largest[static_cast<std::size_t>(i * size / L * size + j * size / L)];
      if (std::abs(entries[i * L + j]) > std::abs(entry)) entry = entries[i * L + j];
    }
  Thumbnail thumbnail{.size = size, .scale = 0, .bytes = {}};
  for (const double entry : largest) thumbnail.scale = std::max(thumbnail.scale, std::abs(entry));
  for (const double entry : largest)
    thumbnail.bytes.push_back(
        static_cast<int8_t>(thumbnail.scale > 0 ? std::lround(entry / thumbnail.scale * 127) : 0));
  return thumbnail;
}

Matrices matrices_of(const TextModel& model, const Work& work) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> layers;
  model.for_each_batch(work.texts, [&](auto, const PackedBatch& batch) {
    layers = layer_matrices(model.module(), model.encoder_options(),
                            [&](const auto& observe) { model.hidden(batch, observe); });
  });
  Matrices matrices;
  for (const auto& heads : layers) {
    matrices.heads.push_back(heads.size(0));
    if (!torch::isfinite(heads).all().item<bool>())
      throw Error("its matrices are not finite. The model's weights are damaged or diverged.");
    if (work.layer > 0) continue;
    auto& row = matrices.thumbnails.emplace_back();
    for (int64_t h = 0; h < heads.size(0); ++h) row.push_back(thumbnail_of(heads[h].contiguous()));
  }
  if (work.layer == 0) return matrices;
  const auto& heads = layers.at(static_cast<std::size_t>(work.layer - 1));
  if (work.head > heads.size(0))
    throw invalid("'head' is ", work.head, "; layer ", work.layer, " has ", heads.size(0),
                  " matrices.");
  const auto M = heads[work.head - 1].contiguous();
  matrices.whole.assign(M.data_ptr<double>(), M.data_ptr<double>() + M.numel());
  if (M.size(0) >= 2 && M.size(0) <= kMostRankTokens) {
    auto ranks = block_ranks(M, /*with_diagonal=*/false, kFloat32RankTolerance);
    matrices.below = std::move(ranks.below);
    matrices.above = std::move(ranks.above);
  }
  return matrices;
}

std::vector<WorkResult> results_of(const ServedModel& served, const Work& first,
                                   std::span<const Encoding> texts) {
  const auto& model = *served.model;
  std::vector<WorkResult> results(texts.size());
  switch (first.kind) {
    case WorkKind::kVectors: {
      auto vectors = text_vectors(model, texts, served.pooling);
      for (std::size_t i = 0; i < texts.size(); ++i) results[i].vector = std::move(vectors[i]);
      break;
    }
    case WorkKind::kTokenVectors: {
      auto vectors = token_vectors(model, texts);
      for (std::size_t i = 0; i < texts.size(); ++i)
        results[i].token_vectors = std::move(vectors[i]);
      break;
    }
    case WorkKind::kOutputs: {
      auto outputs = text_outputs(model, texts);
      for (std::size_t i = 0; i < texts.size(); ++i) {
        results[i].shares = label_shares(outputs[i], model.classifier());
        results[i].outputs = std::move(outputs[i]);
      }
      break;
    }
    case WorkKind::kWords: {
      auto words = mask_words(model, texts, first.top);
      for (std::size_t i = 0; i < texts.size(); ++i) results[i].words = std::move(words[i]);
      break;
    }
    case WorkKind::kMatrices:
      results[0].matrices = matrices_of(model, first);
      break;
    case WorkKind::kImages:  // of another kind of model
      break;
  }
  return results;
}

}  // namespace

ServedModel::ServedModel(std::shared_ptr<const TextModel> opened_model)
    : model(std::move(opened_model)) {
  tokenizer = model->tokenizer();
  const auto& classifier = model->classifier();
  const auto& options = model->encoder_options();
  kind = !classifier.model ? "masked-lm" : classifier.kind;
  task = classifier.task;
  labels = classifier.labels;
  mixer = options.block.mixer;
  pairs = classifier.pairs || kind == "pairs";
  takes_pairs = options.type_vocab > 1;
  layers = options.layers;
  width = options.block.d_model;
  for (const auto& parameter : model->module().parameters()) parameters += parameter.numel();
  // A tagger has no pooling of its own.
  pooling = classifier.model && classifier.model->options().pooling == "cls" ? "cls" : "mean";
  longest = longest_sequence(options);
  const int64_t trained = classifier.model ? classifier.model->options().max_length : 0;
  embed_length = shorter(trained > 0 ? trained : kEmbeddedLength, longest);
  predict_length = shorter(trained > 0 ? trained : kUsualClassifierLength, longest);
}

std::shared_ptr<ModelFacts> open_served_model(const std::string& name,
                                              const std::filesystem::path& folder,
                                              const TextModelOptions& options) {
  std::shared_ptr<ModelFacts> served;
  if (is_of_images(folder))
    served = open_served_images(folder, options);
  else
    served = std::make_shared<ServedModel>(
        open_text_model(folder, "last", Wanted::kAny, options, kEmbeddedLength));
  served->name = name;
  served->opened = std::chrono::duration_cast<std::chrono::seconds>(
                       std::chrono::system_clock::now().time_since_epoch())
                       .count();
  return served;
}

std::vector<std::vector<WorkResult>> compute_works(std::span<const Work* const> works) {
  std::vector<Encoding> texts;
  for (const auto* work : works) texts.insert(texts.end(), work->texts.begin(), work->texts.end());
  const auto& facts = *works.front()->model;
  auto results = works.front()->kind == WorkKind::kImages
                     ? image_results(facts, works)
                     : results_of(dynamic_cast<const ServedModel&>(facts), *works.front(), texts);
  std::vector<std::vector<WorkResult>> split;
  auto begin = std::make_move_iterator(results.begin());
  for (const auto* work : works) {
    const auto end = begin + static_cast<std::ptrdiff_t>(work->size());
    split.emplace_back(begin, end);
    begin = end;
  }
  return split;
}

void warm_up(const std::shared_ptr<const ModelFacts>& model) {
  const auto compute = [](const Work& work) {
    const Work* works[] = {&work};
    compute_works(works);
  };
  if (model->transform) {
    Work work{model, WorkKind::kImages, {}};
    work.images.emplace_back(model->transform->values(), 0.0F);
    return compute(work);
  }
  const auto run = [&](WorkKind kind, const std::string& text) {
    compute({model, kind, {model->tokenizer->encode(text, 16)}, 1});
  };
  run(WorkKind::kVectors, "a text to warm up");
  if (model->kind == "masked-lm")
    run(WorkKind::kWords, "a [MASK] to warm up");
  else if (model->kind != "pairs")
    run(WorkKind::kOutputs, "a text to warm up");
}

}  // namespace hydramix::serve
