// SPDX-License-Identifier: Apache-2.0
// hydramix tokenize: turns text into token shards for pretraining, and checks such a folder.
#include <algorithm>
#include <bit>
#include <filesystem>
#include <iostream>
#include <optional>

#include "base/cores.h"
#include "base/counted.h"
#include "base/formatted.h"
#include "base/interrupt.h"
#include "base/quotes.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "data/token_shards.h"
#include "data/tokenize_job.h"
#include "hydramix/error.h"
#include "hydramix/tokenizer.h"

namespace hydramix {
namespace {

struct TokenizeOptions {
  std::vector<std::string> inputs;
  std::string vocab, out, verify;
  bool cased = false, overwrite = false;
  std::string field = "text", document = "blank-line", on_error = "skip";
  int64_t shard_tokens = 100'000'000, min_tokens = 1, limit_documents = 0, threads = 0;
  int64_t max_document_bytes = 16 << 20;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    constexpr int64_t kMany = int64_t{1} << 40;
    v("inputs", self.inputs, Positional{},
      "text or JSON lines (.json, .jsonl), plain, .gz, .zst or .xz; a folder stands for all such "
      "files in it");
    v("vocab", self.vocab, "vocab.txt or tokenizer.json of the tokenizer");
    v("out", self.out, "folder to write the shards to");
    v("cased", self.cased, "keep capitals and accents; for a vocab.txt");
    v("field", self.field, "field of a JSON line that holds the text");
    v("document", self.document, Choices{"blank-line", "per-line"},
      "end of a document in a text file");
    v("shard_tokens", self.shard_tokens, Range{1, kMany}, "tokens after which a shard ends");
    v("min_tokens", self.min_tokens, Range{1, kMany}, "skip documents with fewer tokens");
    v("max_document_bytes", self.max_document_bytes, Range{1, int64_t{1} << 30},
      "longer documents count as malformed");
    v("limit_documents", self.limit_documents, Range{0, kMany},
      "stop after this many documents; 0: all");
    v("on_error", self.on_error, Choices{"skip", "stop"},
      "skip and count malformed lines, or stop at the first");
    v("threads", self.threads, Range{0, 1024}, "threads that encode; 0: one per core");
    v("overwrite", self.overwrite, "replace the data set that the folder holds");
    v("verify", self.verify, "check the data set in this folder and describe it");
  }
};

Tokenizer load_tokenizer(const TokenizeOptions& o) {
  return Tokenizer::load(o.vocab, o.cased ? TokenizerOptions::cased() : TokenizerOptions{});
}

std::string summary(const ShardIndex& index) {
  return formatted("%s, %s (%.1f a document), %s, data %s", counted(index.documents(), "document"),
                   counted(index.tokens(), "token"),
                   static_cast<double>(index.tokens()) / static_cast<double>(index.documents()),
                   counted(std::ssize(index.shards), "shard"), index.fingerprint());
}

// Counts the documents of 2^k to 2^(k+1) - 1 tokens.
void print_histogram(const TokenShards& shards) {
  std::vector<int64_t> counts;
  for (int64_t i = 0; i < shards.size(); ++i) {
    const auto length = static_cast<uint64_t>(std::max<int64_t>(1, shards.length(i)));
    const auto k = static_cast<std::size_t>(std::bit_width(length)) - 1;
    if (counts.size() <= k) counts.resize(k + 1);
    ++counts[k];
  }
  const int64_t most = *std::max_element(counts.begin(), counts.end());
  std::cout << "documents by length in tokens:\n";
  for (std::size_t k = 0; k < counts.size(); ++k)
    std::cout << formatted("%10lld ..%10lld %12lld  ", int64_t{1} << k, (int64_t{2} << k) - 1,
                           counts[k])
              << std::string(static_cast<std::size_t>((counts[k] * 40 + most - 1) / most), '#')
              << '\n';
}

int run_verify(const TokenizeOptions& o) {
  HYDRAMIX_CHECK_USAGE(o.inputs.empty() && o.out.empty(),
                       "--verify looks at a data set and makes none; leave out inputs and --out.");
  const TokenShards shards(o.verify);
  if (!o.vocab.empty()) shards.check_tokenizer(load_tokenizer(o).fingerprint(), o.vocab);
  const ShardIndex& index = shards.index();
  int64_t total = 0, done = 0;
  for (const ShardInfo& shard : index.shards) total += shard.bytes;
  {
    Progress progress("verify", total, byte_unit(total));
    shards.verify([&](int64_t bytes) { progress.advance_to(done += bytes); });
  }
  std::cout << o.verify << ": " << summary(index) << "\nmade with tokenizer " << index.tokenizer
            << " of " << index.vocabulary << " tokens; left out: " << index.malformed.summary()
            << ", " << index.short_documents << " too short\n";
  print_histogram(shards);
  std::cout << "all checksums are right" << std::endl;
  return 0;
}

void check_usage(const TokenizeOptions& o) {
  HYDRAMIX_CHECK_USAGE(!o.inputs.empty(),
                       "tokenize: no inputs. Name text files, JSON lines or folders of them.");
  HYDRAMIX_CHECK_USAGE(!o.vocab.empty(),
                       "--vocab is missing: the vocab.txt or tokenizer.json of the tokenizer.");
  HYDRAMIX_CHECK_USAGE(!o.out.empty(), "--out is missing: the folder to write the shards to.");
  HYDRAMIX_CHECK_USAGE(!o.field.empty(), "--field: got '', expected the name of a field.");
  std::error_code ignored;  // a folder that does not exist is no input
  for (const auto& input : o.inputs)
    HYDRAMIX_CHECK_USAGE(!std::filesystem::equivalent(input, o.out, ignored), "--out ", o.out,
                         ": is the input ", input,
                         ". The data set would be mixed with it: name another folder.");
}

TokenizeJob job_of(const TokenizeOptions& o, const Tokenizer& tokenizer, const InputFiles& inputs) {
  TokenizeJob job;
  job.inputs = inputs.files;
  job.text = {.field = o.field,
              .document_per_line = o.document == "per-line",
              .max_bytes = o.max_document_bytes};
  job.encode = [&tokenizer](std::string_view text, std::vector<int32_t>& ids) {
    tokenizer.append_ids(text, ids);
  };
  job.tokenizer = tokenizer.fingerprint();
  job.vocabulary = tokenizer.size();
  job.vocab = o.vocab;
  job.cased = o.cased;
  job.out = o.out;
  job.overwrite = o.overwrite;
  job.shard_tokens = o.shard_tokens;
  job.min_tokens = o.min_tokens;
  job.limit_documents = o.limit_documents;
  job.stop_on_error = o.on_error == "stop";
  job.threads = o.threads > 0 ? static_cast<int>(o.threads) : core_count();
  return job;
}

int run_tokenize_command(const TokenizeOptions& o) {
  if (!o.verify.empty()) return run_verify(o);
  check_usage(o);
  const auto inputs = find_input_files(o.inputs, o.out);
  const auto tokenizer = load_tokenizer(o);
  if (!inputs.skipped.empty())
    std::cerr << inputs.skipped.size()
              << (inputs.skipped.size() == 1 ? " file or folder of another kind is"
                                             : " files and folders of other kinds are")
              << " passed over, for example " << escaped(inputs.skipped.front()) << std::endl;

  TokenizeJob job = job_of(o, tokenizer, inputs);
  const Interrupt interrupt;
  std::optional<Progress> progress;
  job.interrupted = [] { return Interrupt::signal() != 0; };
  job.progress = [&](const TokenizeProgress& now) {
    if (!progress) {  // the first call says where the work begins
      progress.emplace("tokenize", now.total_bytes, byte_unit(now.total_bytes), now.bytes);
      if (now.documents > 0)
        progress->message("continuing after " + counted(now.documents, "document"));
      return;
    }
    progress->advance_to(now.bytes,
                         {formatted("%.1f M tokens", static_cast<double>(now.tokens) / 1e6),
                          counted(now.documents, "document")});
  };
  job.report = [&](const std::string& line) { progress->message(line); };
  const TokenizeResult result = run_tokenize(job);
  progress.reset();

  const ShardIndex& index = result.index;
  if (result.state == TokenizeResult::interrupted) {
    std::cerr << "interrupted; " << counted(std::ssize(index.shards), "shard") << " with "
              << counted(index.documents(), "document")
              << (index.shards.size() == 1 ? " is" : " are")
              << " finished. The same command goes on from there." << std::endl;
    return 128 + Interrupt::signal();
  }
  if (result.state == TokenizeResult::was_there)
    std::cerr << o.out << " holds this data set already; --overwrite makes it again." << std::endl;
  std::cout << o.out << ": " << summary(index) << '\n';
  if (index.malformed.total() > 0 || index.short_documents > 0)
    std::cout << "left out: " << index.malformed.summary() << ", " << index.short_documents
              << " too short\n";
  std::cout << std::flush;
  return 0;
}

}  // namespace

Command tokenize_command() {
  return make_command<TokenizeOptions>(
      "tokenize", "turn text into token shards for pretraining", run_tokenize_command,
      "Reads text files (documents between blank lines, or one per line) and JSON lines such as "
      "C4's, and writes token ids without [CLS] and [SEP] to OUT/shard-*.bin and OUT/index.json. "
      "After Ctrl-C or a kill, the same command continues after the last finished shard. The "
      "result is byte for byte the same for any number of threads. docs/data.md describes the "
      "formats.");
}

}  // namespace hydramix
