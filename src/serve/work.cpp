// SPDX-License-Identifier: Apache-2.0
#include "serve/work.h"

#include <algorithm>

namespace hydramix::serve {
namespace {

constexpr int64_t kFloatBytes = 4 + 14;   // a float32 and its decimal digits
constexpr int64_t kDoubleBytes = 8 + 20;  // a float64 and its digits
constexpr int64_t kLabelBytes = 2 * kDoubleBytes + 64;
constexpr int64_t kWordBytes = sizeof(FillMask::Word) + 96;  // and its JSON
constexpr int64_t kThumbnailBytes = 3 << 10;
constexpr int64_t kUsualHeads = 16;  // the matrices of a layer are known when they are computed

int64_t count_of(const Encoding& text, int32_t id) {
  return std::count(text.ids.begin(), text.ids.end(), id);
}

}  // namespace

Work smallest_work(std::shared_ptr<const ModelFacts> model) {
  if (model->transform) {
    const auto size = static_cast<std::size_t>(model->transform->size());
    return {.model = std::move(model),
            .kind = WorkKind::kImages,
            .texts = {},
            .images = {std::vector<float>(3 * size * size)}};
  }
  const auto& special = model->tokenizer->special();
  Encoding text;
  text.ids = {special.cls, special.sep};
  text.type_ids = {0, 0};
  return {.model = std::move(model), .kind = WorkKind::kVectors, .texts = {std::move(text)}};
}

int64_t Work::bytes() const {
  int64_t bytes = 0;
  for (const auto& image : images) bytes += std::ssize(image) * int64_t{sizeof(float)};
  for (const auto& text : texts)
    bytes += std::ssize(text.ids) * int64_t{2 * sizeof(int32_t)} +
             std::ssize(text.offsets) * int64_t{sizeof(text.offsets[0])};
  const int64_t labels = std::max<int64_t>(std::ssize(model->labels), 1);
  switch (kind) {
    case WorkKind::kVectors:
      return bytes + std::ssize(texts) * model->width * kFloatBytes;
    case WorkKind::kTokenVectors:
      return bytes + tokens() * model->width * kFloatBytes;
    case WorkKind::kOutputs:
      return bytes +
             (model->kind == "tokens" ? tokens() : std::ssize(texts)) * labels * kLabelBytes;
    case WorkKind::kWords:
      for (const auto& text : texts)
        bytes += count_of(text, model->tokenizer->special().mask) * top * kWordBytes;
      return bytes;
    case WorkKind::kMatrices:
      return bytes + (layer == 0 ? model->layers * kUsualHeads * kThumbnailBytes
                                 : 3 * tokens() * tokens() * kDoubleBytes);
    case WorkKind::kImages:
      return bytes + std::ssize(images) * labels * kLabelBytes;
  }
  return bytes;
}

}  // namespace hydramix::serve
