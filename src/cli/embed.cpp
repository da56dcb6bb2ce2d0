// SPDX-License-Identifier: Apache-2.0
// hydramix embed FILE: a vector for every line, the mean of the encoder's outputs over its tokens.
#include <algorithm>
#include <cstdio>

#include "base/atomic_file.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "data/line_reader.h"
#include "hydramix/error.h"
#include "train/trained_model.h"
#include "view/npy.h"

namespace hydramix {
namespace {

struct EmbedOptions {
  std::string file;
  std::string model;
  std::string which = "last";
  std::string out;
  int64_t max_length = 512;
  int64_t batch_tokens = 8192;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("file", self.file, Positional{}, Required{}, "text file, one text per line");
    v("model", self.model, Required{}, "folder of a model or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("out", self.out, Required{},
      "file to write: .npy, an array (lines, d_model) of float32; or .jsonl, an array per line");
    v("max_length", self.max_length, Range{3, 1 << 24},
      "tokens of a text with [CLS] and [SEP]; longer ones are cut, as are those too long for the "
      "model");
    v("batch_tokens", self.batch_tokens, Range{1, 1 << 28},
      "approximate number of tokens encoded at once");
  }
};

std::vector<std::string> read_lines(const std::string& path) {
  std::vector<std::string> lines;
  for (LineReader reader(open_text(path), kLongestTextLine); reader.next();) {
    check_line_length(reader, path);
    lines.emplace_back(reader.text());
  }
  HYDRAMIX_CHECK(!lines.empty(), path, ": is empty; expected one text a line.");
  return lines;
}

// Mean over the tokens of each sequence, [CLS] and [SEP] included: (sequences, d_model).
torch::Tensor mean_pooled(const BertForMaskedLM& model, const std::vector<int64_t>& ids,
                          const std::vector<int64_t>& offsets) {
  const auto hidden = model->encode(torch::tensor(ids, torch::kInt64).unsqueeze(0), {},
                                    Layout::packed(torch::tensor(offsets, torch::kInt64)))[0];
  std::vector<torch::Tensor> rows;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s)
    rows.push_back(hidden.narrow(0, offsets[s], offsets[s + 1] - offsets[s]).mean(0));
  return torch::stack(rows).to(torch::kFloat32).contiguous();
}

std::string json_line(const float* row, int64_t width) {
  std::string line = "[";
  char number[32];
  for (int64_t c = 0; c < width; ++c) {
    std::snprintf(number, sizeof number, "%s%.9g", c > 0 ? ", " : "",
                  static_cast<double>(row[c]));  // nine digits give a float32 back exactly
    line += number;
  }
  return line + "]\n";
}

int embed(const EmbedOptions& options) {
  const bool npy = options.out.ends_with(".npy");
  HYDRAMIX_CHECK_USAGE(npy || options.out.ends_with(".jsonl"), "embed: --out ", options.out,
                       " must end in .npy or .jsonl.");
  torch::NoGradGuard no_grad;
  const auto trained = open_trained_model(options.model, options.which);
  const auto lines = read_lines(options.file);
  const int64_t width = trained.model->options().block.d_model;
  // The longest sequence of the model, if that is shorter.
  const int64_t longest = longest_sequence(trained.model->options());
  const int64_t max_length =
      longest > 0 ? std::min(options.max_length, longest) : options.max_length;
  std::vector<float> vectors;
  std::vector<int64_t> ids, offsets{0};
  Progress progress("embed", static_cast<int64_t>(lines.size()), "lines");
  for (std::size_t i = 0; i < lines.size(); ++i) {
    try {
      const auto encoding = trained.tokenizer.encode(lines[i], max_length);
      ids.insert(ids.end(), encoding.ids.begin(), encoding.ids.end());
    } catch (const Error& error) {
      throw Error(concat(options.file, ", line ", i + 1, ": ", error.what()));
    }
    offsets.push_back(static_cast<int64_t>(ids.size()));
    if (static_cast<int64_t>(ids.size()) >= options.batch_tokens || i + 1 == lines.size()) {
      const auto rows = mean_pooled(trained.model, ids, offsets);
      vectors.insert(vectors.end(), rows.data_ptr<float>(), rows.data_ptr<float>() + rows.numel());
      ids.clear();
      offsets = {0};
    }
    progress.advance();
  }
  const auto count = static_cast<int64_t>(lines.size());
  if (npy) {
    write_npy(options.out, {count, width}, std::span<const float>(vectors));
  } else {
    AtomicFile file(options.out);
    for (int64_t i = 0; i < count; ++i) file.write(json_line(vectors.data() + i * width, width));
    file.commit();
  }
  std::printf("wrote %s: %lld vectors of %lld\n", options.out.c_str(),
              static_cast<long long>(count), static_cast<long long>(width));
  return 0;
}

}  // namespace

Command embed_command() {
  return make_command<EmbedOptions>("embed", "write a mean-pooled vector for every line of a file",
                                    embed,
                                    "Example:\n  hydramix embed lines.txt --model runs/tiny --out "
                                    "vectors.npy");
}

}  // namespace hydramix
