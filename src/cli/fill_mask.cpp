// SPDX-License-Identifier: Apache-2.0
// hydramix fill-mask "the [MASK] of France": the likeliest words for every [MASK].
#include <cstdio>

#include "cli/commands.h"
#include "hydramix/error.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct FillMaskOptions {
  std::vector<std::string> texts;
  std::string model;
  std::string which = "last";
  int64_t top = 5;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("texts", self.texts, Positional{}, Required{}, "texts with [MASK] for each word to predict");
    v("model", self.model, Required{}, "folder of a model or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("top", self.top, Range{1, 1000}, "words shown for each place");
  }
};

void fill(const TrainedModel& trained, const std::string& text, int64_t top) {
  const auto& tokenizer = trained.tokenizer;
  const auto encoding = tokenizer.encode(text);
  const std::vector<int64_t> ids(encoding.ids.begin(), encoding.ids.end());
  const auto hidden = trained.model->encode(torch::tensor(ids, torch::kInt64).unsqueeze(0), {})[0];
  std::printf("%s\n", text.c_str());
  int64_t number = 0;
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] != tokenizer.special().mask) continue;
    // Rows of the embedding beyond the tokenizer's size are not words.
    const auto probabilities = trained.model->predict(hidden[static_cast<int64_t>(i)])
                                   .narrow(0, 0, tokenizer.size())
                                   .softmax(0);
    const auto [values, words] = probabilities.topk(std::min(top, tokenizer.size()));
    ++number;
    for (int64_t k = 0; k < values.size(0); ++k)
      std::printf(
          "  %s %-20s %6.2f %%\n", k == 0 ? concat("[MASK] ", number, ":").c_str() : "         ",
          tokenizer.token(words[k].item<int32_t>()).c_str(), 100 * values[k].item<double>());
  }
}

int fill_mask(const FillMaskOptions& options) {
  torch::NoGradGuard no_grad;
  const auto trained = open_trained_model(options.model, options.which);
  const int32_t mask = trained.tokenizer.special().mask;
  for (const auto& text : options.texts) {
    const auto ids = trained.tokenizer.encode(text).ids;
    HYDRAMIX_CHECK_USAGE(std::find(ids.begin(), ids.end(), mask) != ids.end(), "fill-mask: \"",
                         text, "\" has no [MASK]. Write it where a word is asked for.");
  }
  for (const auto& text : options.texts) fill(trained, text, options.top);
  return 0;
}

}  // namespace

Command fill_mask_command() {
  return make_command<FillMaskOptions>(
      "fill-mask", "print the likeliest words for every [MASK] of a text", fill_mask,
      "Example:\n  hydramix fill-mask --model runs/tiny \"the [MASK] of france\"");
}

}  // namespace hydramix
