// SPDX-License-Identifier: Apache-2.0
#include "models/encoded_texts.h"

#include <algorithm>
#include <cmath>

#include "models/pooling.h"
#include "models/unit_length.h"

namespace hydramix {
namespace {

constexpr const char* kDamagedModel =
    " not finite. The model's weights are damaged or diverged in training: take an earlier "
    "checkpoint.";

// Positions whose logits exist at once: 16 MB for a vocabulary of 30 522.
constexpr int64_t kLogitRows = 128;

struct MaskedPlace {
  int64_t place;      // among the tokens of the batch
  std::size_t text;   // its number
  std::size_t order;  // among the masks of the text
};

using MaskWords = std::vector<std::vector<std::vector<FillMask::Word>>>;

// The head, on some masked positions of a batch. Rows of the embedding beyond the tokenizer's size
// are not words.
void fill_places(const TextModel& model, const torch::Tensor& hidden,
                 std::span<const MaskedPlace> places, int64_t top, MaskWords& filled) {
  const auto& tokenizer = model.tokenizer();
  std::vector<int64_t> rows;
  for (const auto& masked : places) rows.push_back(masked.place);
  const auto index = torch::tensor(rows, torch::kInt64).to(hidden.device());
  const auto probabilities = model.masked_lm()
                                 ->predict(hidden.index_select(0, index))
                                 .narrow(1, 0, tokenizer.size())
                                 .to(torch::kFloat32)
                                 .softmax(1);
  const auto [values, words] = probabilities.topk(std::min(top, tokenizer.size()), 1);
  const auto shares = values.to(torch::kCPU, torch::kFloat64).contiguous();
  const auto ids = words.to(torch::kCPU).contiguous();
  const int64_t width = shares.size(1);
  for (std::size_t k = 0; k < places.size(); ++k) {
    const auto& [place, text, order] = places[k];
    const int64_t row = static_cast<int64_t>(k) * width;
    for (int64_t c = row; c < row + width; ++c) {
      const double probability = shares.data_ptr<double>()[c];
      if (!std::isfinite(probability))
        throw TextError(text, filled.size(), concat("its probabilities are", kDamagedModel));
      const auto id = static_cast<int32_t>(ids.data_ptr<int64_t>()[c]);
      filled[text][order].push_back({tokenizer.token(id), id, probability});
    }
  }
}

}  // namespace

std::vector<std::vector<float>> text_vectors(const TextModel& model,
                                             std::span<const Encoding> texts,
                                             const std::string& pooling) {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<float>> vectors(texts.size());
  const int64_t width = model.encoder_options().block.d_model;
  model.for_each_batch(texts, [&](std::span<const std::size_t> some, const PackedBatch& batch) {
    const auto rows = pooled(model.hidden(batch), batch.layout, pooling)
                          .to(torch::kCPU, torch::kFloat32)
                          .contiguous();
    for (std::size_t k = 0; k < some.size(); ++k) {
      const float* row = rows.data_ptr<float>() + static_cast<int64_t>(k) * width;
      auto& vector = vectors[some[k]];
      vector.assign(row, row + width);
      if (!std::isfinite(squared_length(vector)))
        throw TextError(some[k], texts.size(), concat("its vector is", kDamagedModel));
    }
  });
  return vectors;
}

std::vector<std::vector<float>> token_vectors(const TextModel& model,
                                              std::span<const Encoding> texts) {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<float>> vectors(texts.size());
  const int64_t width = model.encoder_options().block.d_model;
  model.for_each_batch(texts, [&](std::span<const std::size_t> some, const PackedBatch& batch) {
    const auto rows = model.hidden(batch)[0].to(torch::kCPU, torch::kFloat32).contiguous();
    const float* row = rows.data_ptr<float>();
    for (const auto i : some) {
      const int64_t values = std::ssize(texts[i].ids) * width;
      vectors[i].assign(row, row + values);
      row += values;
      if (!std::isfinite(squared_length(vectors[i])))
        throw TextError(i, texts.size(), concat("its vectors are", kDamagedModel));
    }
  });
  return vectors;
}

std::vector<std::vector<double>> text_outputs(const TextModel& model,
                                              std::span<const Encoding> texts) {
  const torch::NoGradGuard no_grad;
  std::vector<std::vector<double>> outputs(texts.size());
  const auto& classifier = model.classifier();
  const bool of_tokens = classifier.kind == "tokens";
  model.for_each_batch(texts, [&](std::span<const std::size_t> some, const PackedBatch& batch) {
    const auto logits = classifier.model->predict(model.hidden(batch), batch.layout)
                            .to(torch::kCPU, torch::kFloat64)
                            .contiguous();
    const double* row = logits.data_ptr<double>();
    for (const auto i : some) {
      const int64_t values = logits.size(1) * (of_tokens ? std::ssize(texts[i].ids) : 1);
      outputs[i].assign(row, row + values);
      row += values;
      if (!std::all_of(outputs[i].begin(), outputs[i].end(),
                       [](double value) { return std::isfinite(value); }))
        throw TextError(i, texts.size(), concat("its answer is", kDamagedModel));
    }
  });
  return outputs;
}

std::vector<double> label_shares(std::span<const double> outputs, const ClassifierTask& task) {
  if (task.labels.empty()) return {};
  const auto labels = static_cast<int64_t>(task.labels.size());
  const auto rows =
      torch::tensor(c10::ArrayRef<double>(outputs.data(), outputs.size()), torch::kFloat64)
          .view({-1, labels});
  const auto shares = (task.kind == "labels" ? rows.sigmoid() : rows.softmax(1)).contiguous();
  return {shares.data_ptr<double>(), shares.data_ptr<double>() + shares.numel()};
}

std::vector<std::vector<std::vector<FillMask::Word>>> mask_words(const TextModel& model,
                                                                 std::span<const Encoding> texts,
                                                                 int64_t top) {
  const torch::NoGradGuard no_grad;
  const int32_t mask = model.tokenizer().special().mask;
  MaskWords filled(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i)
    filled[i].resize(
        static_cast<std::size_t>(std::count(texts[i].ids.begin(), texts[i].ids.end(), mask)));
  model.for_each_batch(texts, [&](std::span<const std::size_t> some, const PackedBatch& batch) {
    std::vector<MaskedPlace> places;
    int64_t place = 0;
    for (const auto text : some) {
      std::size_t order = 0;
      for (const auto id : texts[text].ids) {
        if (id == mask) places.push_back({place, text, order++});
        ++place;
      }
    }
    const auto hidden = model.hidden(batch)[0];
    for (std::size_t begin = 0; begin < places.size(); begin += kLogitRows)
      fill_places(model, hidden,
                  std::span(places).subspan(
                      begin, std::min<std::size_t>(kLogitRows, places.size() - begin)),
                  top, filled);
  });
  return filled;
}

}  // namespace hydramix
