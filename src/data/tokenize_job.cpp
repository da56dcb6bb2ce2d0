// SPDX-License-Identifier: Apache-2.0
#include "data/tokenize_job.h"

#include "base/quotes.h"
#include "data/ordered_pipeline.h"
#include "data/token_shards.h"
#include "data/tokenize_folder.h"

namespace hydramix {
namespace {

constexpr int64_t kShownPerCause = 5;  // malformed lines; all are counted
constexpr std::size_t kBatchBytes = 256 << 10;

// Documents that pass through the threads together, so that the cost of locks is negligible.
struct Batch {
  std::vector<RawDocument> documents;  // the first `count` are valid; the rest is reused memory
  std::size_t count = 0;
  int64_t consumed = 0;  // bytes of the input up to here

  std::vector<int32_t> ids;       // of all documents
  std::vector<std::size_t> ends;  // of each of them
};

bool fill(Batch& batch, TextSource& source) {
  std::size_t bytes = 0;
  for (batch.count = 0; bytes < kBatchBytes; ++batch.count) {
    if (batch.count == batch.documents.size()) batch.documents.emplace_back();
    RawDocument& document = batch.documents[batch.count];
    if (!source.next(document)) break;
    bytes += document.bytes.size() + 64;  // so that empty documents also fill the batch
  }
  batch.consumed = source.consumed();
  return batch.count > 0;
}

void encode(Batch& batch, const TokenizeJob& job) {
  std::string text;
  batch.ids.clear();
  batch.ends.clear();
  for (std::size_t i = 0; i < batch.count; ++i) {
    RawDocument& document = batch.documents[i];
    document.defect = extract_text(document, job.text, text);
    if (!document.defect) job.encode(text, batch.ids);
    batch.ends.push_back(batch.ids.size());
  }
}

ShardIndex new_index(const TokenizeJob& job) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const InputFile& input : job.inputs)
    inputs.push_back({{"file", input.path}, {"bytes", input.bytes}});
  ShardIndex index;
  index.tokenizer = job.tokenizer;
  index.vocabulary = job.vocabulary;
  index.made_with = {{"vocab", job.vocab},
                     {"cased", job.cased},
                     {"tokenizer", job.tokenizer},
                     {"field", job.text.field},
                     {"document", job.text.document_per_line ? "per-line" : "blank-line"},
                     {"max_document_bytes", job.text.max_bytes},
                     {"min_tokens", job.min_tokens},
                     {"limit_documents", job.limit_documents},
                     {"shard_tokens", job.shard_tokens},
                     {"inputs", inputs}};
  return index;
}

// Throws if the inputs differ from those that an unfinished data set was made from.
void check_unchanged(const std::vector<InputFile>& inputs, const TextPosition& position,
                     const std::filesystem::path& out) {
  uint32_t crc = 0;
  int64_t total = 0;
  const auto add = [&](std::size_t file, int64_t bytes) {
    crc = file_crc(inputs[file].path, 0, bytes, crc);
    total += bytes;
  };
  const auto current = static_cast<std::size_t>(position.file);
  for (std::size_t file = 0; file < std::min(current, inputs.size()); ++file)
    add(file, inputs[file].bytes);
  if (current < inputs.size()) add(current, position.bytes_read);
  HYDRAMIX_CHECK_USAGE(crc == position.crc, out.string(),
                       ": holds an unfinished data set of inputs that have changed since: the "
                       "first ",
                       total, " bytes of the inputs have the checksum ", std::hex, crc, ", had ",
                       position.crc, std::dec,
                       ". Bring the inputs back, or use --overwrite to begin again.");
}

// Runs in the caller's thread: takes documents in order and writes them.
class Sink {
 public:
  Sink(const TokenizeJob& job, TokenizeFolder& folder)
      : job_(job), folder_(folder), writer_(job.out, folder.index(), job.shard_tokens) {}

  // False when the limit of documents is reached.
  bool take(const Batch& batch) {
    for (std::size_t i = 0, begin = 0; i < batch.count; begin = batch.ends[i++]) {
      if (is_full()) return false;
      const RawDocument& document = batch.documents[i];
      const std::span ids(batch.ids.data() + begin, batch.ends[i] - begin);
      if (document.defect)
        handle(*document.defect);
      else if (std::ssize(ids) < job_.min_tokens)
        ++writer_.index().short_documents;
      else if (writer_.add(ids))
        folder_.save(writer_.index(), document.after);
    }
    return !is_full();
  }

  bool is_full() const {
    return job_.limit_documents > 0 && writer_.documents() >= job_.limit_documents;
  }

  void finish() {
    const ShardIndex& index = writer_.index();
    if (writer_.documents() == 0) {
      folder_.abandon();
      throw Error(concat("the inputs have no document of ", job_.min_tokens,
                         " tokens or more, and a data set has one at least: ",
                         index.short_documents, " documents too short, ", index.malformed.summary(),
                         ". Check --field, --document and --min-tokens."));
    }
    writer_.finish();
    folder_.complete();
  }

  TokenizeProgress progress(int64_t bytes, int64_t total) const {
    return {bytes, total, writer_.documents(), writer_.tokens()};
  }
  ShardIndex& index() { return writer_.index(); }

 private:
  void handle(const Defect& defect) {
    const auto& path = job_.inputs[static_cast<std::size_t>(defect.file)].path;
    const auto name = kCauseNames[static_cast<std::size_t>(defect.cause)];
    const std::string message =
        concat(escaped(path), ":", defect.line, ": ", name, ": ", escaped(defect.detail));
    HYDRAMIX_CHECK(!job_.stop_on_error, message,
                   ". Mend the line, or leave such lines out with --on-error skip.");
    const int64_t count = ++writer_.index().malformed[defect.cause];
    if (!job_.report || count > kShownPerCause) return;
    job_.report(message + " (left out)");
    if (count == kShownPerCause) job_.report(concat("further ", name, " are only counted"));
  }

  const TokenizeJob& job_;
  TokenizeFolder& folder_;
  TokenShardsWriter writer_;
};

}  // namespace

TokenizeResult run_tokenize(const TokenizeJob& job) {
  TokenizeFolder folder(job.out, new_index(job), job.overwrite);
  const int64_t found = std::ssize(folder.index().shards);
  if (folder.is_complete()) return {folder.index(), TokenizeResult::was_there, found};

  int64_t total = 0;
  for (const InputFile& input : job.inputs) total += input.bytes;
  Sink sink(job, folder);
  if (!sink.is_full()) {
    TextSource source(job.inputs, job.text, folder.position());
    if (job.progress) job.progress(sink.progress(source.consumed(), total));
    check_unchanged(job.inputs, folder.position(), job.out);
    OrderedPipeline<Batch> pipeline([&](Batch& batch) { return fill(batch, source); },
                                    [&](Batch& batch) { encode(batch, job); }, job.threads);
    Batch batch;
    while (pipeline.next(batch)) {
      const bool more = sink.take(batch);
      if (job.progress) job.progress(sink.progress(batch.consumed, total));
      if (!more) break;
      if (job.interrupted && job.interrupted())
        return {sink.index(), TokenizeResult::interrupted, found};
    }
  }
  sink.finish();
  return {sink.index(), TokenizeResult::finished, found};
}

}  // namespace hydramix
