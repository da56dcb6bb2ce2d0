// SPDX-License-Identifier: Apache-2.0
// hydramix embed: a vector for every text.
#include <cstdio>

#include "cli/commands.h"
#include "cli/text_job.h"
#include "hydramix/error.h"
#include "hydramix/text_embedder.h"
#include "train/trained_model.h"
#include "view/npy.h"

namespace hydramix {
namespace {

struct EmbedOptions {
  std::vector<std::string> files;
  std::string model;
  std::string which = "last";
  std::string text;
  std::string pooling = "auto";
  bool normalize = false;
  TextJobOptions job;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("files", self.files, Positional{}, "files of texts, also .gz, .xz or .zst; - for stdin");
    v("model", self.model, Required{}, "folder of a model, of a classifier, or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("text", self.text, "a text to embed, in place of files");
    v("pooling", self.pooling, Choices{"auto", "mean", "cls"},
      "mean: over all tokens of the text, [CLS] and [SEP] included; cls: the output at [CLS]; "
      "auto: a classifier's own, else mean");
    v("normalize", self.normalize, "scale every vector to length 1");
    TextJobOptions::fields(self.job, v);
  }
};

// Nine digits give a float32 back exactly.
std::string row_text(std::span<const float> vector, const char* separator) {
  std::string line;
  char number[32];
  for (const float value : vector) {
    std::snprintf(number, sizeof number, "%s%.9g", line.empty() ? "" : separator,
                  static_cast<double>(value));
    line += number;
  }
  return line;
}

std::string_view as_bytes(std::span<const float> vector) {
  return {reinterpret_cast<const char*>(vector.data()), vector.size_bytes()};
}

int embed(const EmbedOptions& options) {
  HYDRAMIX_CHECK_USAGE(!options.files.empty() || !options.text.empty(),
                       "embed: no texts. Name files, - for stdin, or give --text.");
  ResultFile results("embed", options.job, {"jsonl", "tsv", "npy"}, options.model, options.files);
  const TextEmbedder embedder(open_text_model(options.model, options.which, Wanted::kAny,
                                              options.job.model_options(), kEmbeddedLength),
                              {.pooling = options.pooling == "auto" ? "" : options.pooling,
                               .normalize = options.normalize});
  TextRows rows(given_texts(options.text.empty() ? std::vector<std::string>{}
                                                 : std::vector<std::string>{options.text}),
                options.files, {.format = options.job.format, .field = options.job.field});
  const auto& format = results.format();
  const int64_t width = embedder.width();
  TextNotes notes;
  if (format == "npy") results.write(npy_header_of_rows(0, width));
  const int64_t count =
      for_each_text_batch("embed", rows, results, options.job, [&](std::span<const TextRow> some) {
        std::vector<std::string> texts;
        for (const auto& row : some) texts.push_back(row.first);
        const auto embeddings = embedder.embed(texts);
        for (std::size_t i = 0; i < some.size(); ++i) {
          notes.add(some[i], embeddings[i].tokens);
          const auto& vector = embeddings[i].vector;
          if (format == "npy")
            results.write(as_bytes(vector));
          else if (format == "jsonl")
            results.write("[" + row_text(vector, ", ") + "]\n");
          else
            results.write(row_text(vector, "\t") + "\n");
        }
        results.flush();
      });
  if (format == "npy") results.replace_beginning(npy_header_of_rows(count, width));
  results.commit();
  notes.print(embedder.max_length());
  if (!results.to_stdout())
    std::printf("wrote %s: %lld vectors of %lld\n", options.job.out.c_str(),
                static_cast<long long>(count), static_cast<long long>(width));
  return 0;
}

}  // namespace

Command embed_command() {
  return make_command<EmbedOptions>(
      "embed", "write a vector for every text", embed,
      "Examples:\n"
      "  hydramix embed lines.txt --model runs/tiny --out vectors.npy\n"
      "  zcat c4.json.gz | hydramix embed - --format jsonl --model runs/tiny --normalize\n"
      "Writes, in the order of the texts, a JSON array per line (jsonl, the default on stdout), "
      "numbers separated by tabs (tsv), or an array (texts, d_model) of float32 (npy). Memory does "
      "not grow with the number of texts.");
}

}  // namespace hydramix
