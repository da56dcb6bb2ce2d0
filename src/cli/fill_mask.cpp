// SPDX-License-Identifier: Apache-2.0
// hydramix fill-mask "the [MASK] of France": the likeliest words for every [MASK].
#include "hydramix/fill_mask.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "base/formatted.h"
#include "cli/commands.h"
#include "cli/text_job.h"
#include "hydramix/error.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct FillMaskOptions {
  std::vector<std::string> texts;
  std::vector<std::string> input;
  std::string model;
  std::string which = "last";
  int64_t top = 5;
  TextJobOptions job;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("texts", self.texts, Positional{},
      "texts with [MASK] for each word to predict; - reads stdin");
    v("input", self.input, "files of texts, also .gz, .xz or .zst; - for stdin");
    v("model", self.model, Required{}, "folder of a model or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("top", self.top, Range{1, 1000}, "words shown for each [MASK]");
    TextJobOptions::fields(self.job, v);
  }
};

std::string as_text(const TextRow& row, const FillMask::Answer& answer) {
  std::string text = row.first + "\n";
  for (std::size_t m = 0; m < answer.masks.size(); ++m)
    for (std::size_t k = 0; k < answer.masks[m].size(); ++k) {
      const auto& word = answer.masks[m][k];
      text += formatted("  %s %-20s %6.2f %%\n",
                        k == 0 ? concat("[MASK] ", m + 1, ":") : std::string("         "),
                        word.token, 100 * word.probability);
    }
  return text;
}

std::string as_json(const TextRow& row, const FillMask::Answer& answer) {
  auto masks = nlohmann::ordered_json::array();
  for (const auto& words : answer.masks) {
    auto& mask = masks.emplace_back(nlohmann::ordered_json::array());
    for (const auto& word : words)
      mask.push_back({{"token", word.token}, {"probability", word.probability}});
  }
  return nlohmann::ordered_json{{"text", row.first}, {"masks", masks}}.dump() + "\n";
}

std::string as_rows(int64_t number, const FillMask::Answer& answer) {
  std::string text;
  for (std::size_t m = 0; m < answer.masks.size(); ++m)
    for (const auto& word : answer.masks[m])
      text += concat(number, "\t", m + 1, "\t", table_cell(word.token), "\t",
                     json_number(word.probability), "\n");
  return text;
}

int fill_mask(const FillMaskOptions& options) {
  std::vector<std::string> texts = options.texts, files = options.input;
  if (const auto dash = std::find(texts.begin(), texts.end(), "-"); dash != texts.end()) {
    texts.erase(dash);
    files.push_back("-");
  }
  HYDRAMIX_CHECK_USAGE(
      !texts.empty() || !files.empty(),
      "fill-mask: no texts. Give texts with [MASK], --input FILE, or - for stdin.");
  ResultFile results("fill-mask", options.job, {"text", "jsonl", "tsv"}, options.model, files);
  const FillMask model(open_text_model(options.model, options.which, Wanted::kMaskedLm,
                                       options.job.model_options(), 0));
  TextRows rows(given_texts(texts), files,
                {.format = options.job.format, .field = options.job.field});
  const auto& format = results.format();
  TextNotes notes;
  if (format == "tsv") results.write("text\tmask\ttoken\tprobability\n");
  int64_t number = 0;  // of the text
  for_each_text_batch("fill-mask", rows, results, options.job, [&](std::span<const TextRow> some) {
    std::vector<std::string> batch;
    for (const auto& row : some) batch.push_back(row.first);
    const auto answers = model.fill(batch, options.top);
    for (std::size_t i = 0; i < some.size(); ++i) {
      notes.add(some[i], answers[i].tokens);
      ++number;
      results.write(format == "text"    ? as_text(some[i], answers[i])
                    : format == "jsonl" ? as_json(some[i], answers[i])
                                        : as_rows(number, answers[i]));
    }
    results.flush();
  });
  results.commit();
  notes.print(model.max_length());
  return 0;
}

}  // namespace

Command fill_mask_command() {
  return make_command<FillMaskOptions>(
      "fill-mask", "print the likeliest words for every [MASK] of a text", fill_mask,
      "Examples:\n"
      "  hydramix fill-mask --model runs/tiny \"the [MASK] of france\"\n"
      "  hydramix fill-mask --model runs/tiny --input texts.jsonl --to jsonl --out filled.jsonl\n"
      "Writes text, JSON lines {\"text\", \"masks\": [[{\"token\", \"probability\"}, ...], ...]}, "
      "or a table (tsv) of text number, mask number, token and probability.");
}

}  // namespace hydramix
