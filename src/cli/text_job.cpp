// SPDX-License-Identifier: Apache-2.0
#include "cli/text_job.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>

#include <nlohmann/json.hpp>

#include "base/counted.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "cli/output_path.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr int64_t kBytesPerToken = 4;    // about, in English
constexpr int64_t kBatchesAhead = 4;     // texts of similar length are computed together
constexpr std::size_t kMostRows = 4096;  // read ahead, however short

// The format that the ending of --out names, if the command writes it.
std::string format_of_name(const std::string& path, const std::vector<std::string>& formats) {
  auto ending = std::filesystem::path(path).extension().string();
  if (!ending.empty()) ending.erase(0, 1);
  if (ending == "txt") ending = "text";
  if (ending == "json" || ending == "ndjson") ending = "jsonl";
  for (const auto& format : formats)
    if (format == ending) return format;
  return "";
}

}  // namespace

ResultFile::ResultFile(const std::string& command, const TextJobOptions& options,
                       const std::vector<std::string>& formats, const std::string& model,
                       const std::vector<std::string>& inputs)
    : format_(options.to) {
  const auto choices = join(formats);
  if (format_.empty())
    format_ = options.out.empty() ? formats.front() : format_of_name(options.out, formats);
  HYDRAMIX_CHECK_USAGE(!format_.empty(), command, ": --out ", options.out,
                       " does not name a format. Give one with --to: ", choices, ".");
  HYDRAMIX_CHECK_USAGE(std::find(formats.begin(), formats.end(), format_) != formats.end(), command,
                       ": --to ", format_,
                       " is not a format of its results; expected one of: ", choices, ".",
                       did_you_mean(format_, formats));
  HYDRAMIX_CHECK_USAGE(format_ != "npy" || !options.out.empty(), command,
                       ": an .npy states its size at the beginning, so it cannot be streamed. Give "
                       "--out FILE.npy, or --to jsonl.");
  if (options.out.empty()) return;
  auto all_inputs = model_files(model);
  all_inputs.insert(all_inputs.end(), inputs.begin(), inputs.end());
  check_not_an_input("--out", options.out, all_inputs);
  file_ = std::make_unique<AtomicFile>(options.out);
}

void ResultFile::write(std::string_view text) {
  if (file_)
    file_->write(text);
  else
    std::cout << text;
}

void ResultFile::replace_beginning(std::string_view text) { file_->replace_beginning(text); }

void ResultFile::flush() {
  if (!file_) std::cout.flush();
}

bool ResultFile::closed() const { return !file_ && !std::cout; }

void ResultFile::commit() {
  flush();
  if (file_) file_->commit();
}

void TextNotes::add(const TextRow& row, const TextTokens& tokens) {
  ++texts_;
  if (tokens.unknown > 0) {
    if (unknown_words_ == 0) first_unknown_ = row.where;
    unknown_words_ += tokens.unknown;
    ++texts_with_unknown_;
  }
  if (tokens.cut && cut_++ == 0) first_cut_ = row.where;
}

void TextNotes::print(int64_t max_length) const {
  std::string notes;
  if (unknown_words_ > 0)
    notes += concat("the vocabulary lacks ", counted(unknown_words_, "word"), " of ",
                    texts_with_unknown_, " of ", counted(texts_, "text"), " ([UNK]), the first in ",
                    first_unknown_, "\n");
  if (cut_ > 0)
    notes += concat(counted(cut_, "text"), " of ", texts_, cut_ == 1 ? " was" : " were", " cut to ",
                    max_length, " tokens, the first ", first_cut_, "\n");
  std::fputs(notes.c_str(), stderr);
}

int64_t for_each_text_batch(const std::string& command, TextRows& rows, const ResultFile& results,
                            const TextJobOptions& options,
                            const std::function<void(std::span<const TextRow>)>& process) {
  // Where texts are typed, each is answered at once.
  const std::size_t most_rows = isatty(STDIN_FILENO) != 0 && rows.total() == 0 ? 1 : kMostRows;
  const int64_t most_bytes = options.batch_tokens * kBytesPerToken * kBatchesAhead;
  std::optional<Progress> progress;
  const bool results_on_terminal = results.to_stdout() && isatty(STDOUT_FILENO) != 0;
  if (rows.total() > 0 && !results_on_terminal)
    progress.emplace(command, rows.total(), byte_unit(rows.total()));
  int64_t count = 0;
  std::vector<TextRow> batch;
  TextRow row;
  for (bool more = true; more && !results.closed();) {
    batch.clear();
    for (int64_t bytes = 0; batch.size() < most_rows && bytes < most_bytes;) {
      more = rows.next(row);
      if (!more) break;
      bytes += std::ssize(row.first) + (row.second ? std::ssize(*row.second) : 0);
      batch.push_back(row);
    }
    if (batch.empty()) break;
    try {
      process(batch);
    } catch (const TextError& error) {
      const auto& bad = batch[error.index()];
      const auto message = concat(command, ": ", bad.where, ": ", error.reason());
      if (bad.is_argument) throw UsageError(message);
      throw Error(message);
    }
    count += std::ssize(batch);
    if (progress) progress->advance_to(rows.consumed());
  }
  HYDRAMIX_CHECK(count > 0 || results.closed(), command,
                 ": the input is empty; expected texts. Check the file and --format.");
  return count;
}

std::vector<TextRow> given_texts(const std::vector<std::string>& texts) {
  std::vector<TextRow> rows;
  for (const auto& text : texts)
    rows.push_back({.first = text, .second = {}, .where = in_quotes(text), .is_argument = true});
  return rows;
}

std::string json_number(double value) {
  HYDRAMIX_CHECK(std::isfinite(value), "a result is not finite, which JSON cannot hold.");
  return nlohmann::json(value).dump();
}

std::string table_cell(const std::string& text) {
  return text.find_first_of("\t\n\r") == text.npos ? text : escaped(text);
}

}  // namespace hydramix
