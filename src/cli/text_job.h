// SPDX-License-Identifier: Apache-2.0
// Texts in, results out, in constant memory: the part that fill-mask, embed and predict share.
// Texts are read a batch at a time (data/text_rows), a model computes their results, and these are
// written in the order of the texts, to stdout or to a file that appears when all is done.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "cli/progress.h"
#include "data/text_rows.h"
#include "hydramix/options.h"
#include "hydramix/text_model.h"

namespace hydramix {

// Options of all three commands.
struct TextJobOptions {
  std::string format = "auto";
  std::string field = "text";
  std::string out;
  std::string to;
  std::string device = "auto";
  int64_t max_length = 0;
  int64_t batch_tokens = 8192;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("format", self.format, Choices{"auto", "text", "jsonl", "tsv", "csv"},
      "format of the input: a text per line, JSON lines, or a table whose first line names its "
      "columns; auto: by the file's name, else text");
    fields_after_format(self, v);
  }
  // For a command that reads more formats.
  template <class Self, class Visitor>
  static void fields_after_format(Self& self, Visitor& v) {
    v("field", self.field, "field of a JSON line, or column of a table, that holds the text");
    v("out", self.out, "file to write, which appears when all is done; by default stdout");
    v("to", self.to, "format of the output; by default that of the name of --out");
    v("device", self.device, Choices{"auto", "cpu", "cuda"},
      "where to compute; auto: a GPU if any");
    v("max_length", self.max_length, Range{0, 1 << 24},
      "tokens of a text with [CLS] and [SEP]; the rest is cut off; 0: as in training, or what the "
      "model accepts");
    v("batch_tokens", self.batch_tokens, Range{1, 1 << 28},
      "approximate number of tokens computed at once");
  }
  TextModelOptions model_options() const { return {max_length, device, batch_tokens}; }
};

// Where results go.
class ResultFile {
 public:
  // `formats` are those of the command, the default first. Fails before any work if the file cannot
  // be written, is one of `inputs`, or belongs to the folder `model`.
  ResultFile(const std::string& command, const TextJobOptions& options,
             const std::vector<std::string>& formats, const std::string& model,
             const std::vector<std::string>& inputs);

  const std::string& format() const { return format_; }
  bool to_stdout() const { return !file_; }
  void write(std::string_view text);
  void replace_beginning(std::string_view text);  // of a file
  // The reader of stdout has gone, or the disk is full; nothing more can be written.
  bool closed() const;
  void flush();
  void commit();

 private:
  std::string format_;
  std::unique_ptr<AtomicFile> file_;
};

// Counts unknown words and cut texts, for a message at the end.
class TextNotes {
 public:
  void add(const TextRow& row, const TextTokens& tokens);
  void print(int64_t max_length) const;  // to stderr

 private:
  int64_t texts_ = 0, unknown_words_ = 0, texts_with_unknown_ = 0, cut_ = 0;
  std::string first_unknown_, first_cut_;
};

// Calls process(rows) with batches of the rows, in order, until the results are closed. A TextError
// gets the place of its text. Returns the number of texts.
int64_t for_each_text_batch(const std::string& command, TextRows& rows, const ResultFile& results,
                            const TextJobOptions& options,
                            const std::function<void(std::span<const TextRow>)>& process);

// Texts of the command line as rows.
std::vector<TextRow> given_texts(const std::vector<std::string>& texts);

// A number as JSON; finite ones only.
std::string json_number(double value);

// A cell of a table: tabs and line ends are escaped.
std::string table_cell(const std::string& text);

}  // namespace hydramix
