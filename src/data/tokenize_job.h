// SPDX-License-Identifier: Apache-2.0
// Converts text files to token shards: one thread reads and decompresses, many parse and encode,
// the caller's thread writes in the order of the input. The output does not depend on the number of
// threads or on interruptions.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "data/shard_index.h"
#include "data/text_source.h"

namespace hydramix {

struct TokenizeProgress {
  int64_t bytes, total_bytes;  // of the input files as they are on disk
  int64_t documents, tokens;
};

struct TokenizeJob {
  std::vector<InputFile> inputs;
  TextOptions text;

  // Appends the ids of a text; called from many threads.
  std::function<void(std::string_view, std::vector<int32_t>&)> encode;
  std::string tokenizer;   // its fingerprint
  int64_t vocabulary = 0;  // its size
  std::string vocab;       // the file it came from, for messages
  bool cased = false;

  std::filesystem::path out;
  bool overwrite = false;
  int64_t shard_tokens = 100'000'000;
  int64_t min_tokens = 1;       // shorter documents are skipped
  int64_t limit_documents = 0;  // 0: all
  bool stop_on_error = false;   // a malformed line is an Error; else it is counted and skipped
  int threads = 1;              // number of encoding threads

  // All are called from the thread that runs the job; progress is also called once at the start.
  std::function<void(const TokenizeProgress&)> progress;
  std::function<void(const std::string&)> report;  // a message about malformed input
  std::function<bool()> interrupted;               // polled often; true ends the job early
};

struct TokenizeResult {
  enum State { finished, interrupted, was_there };
  ShardIndex index;  // lists the finished shards
  State state;
  int64_t resumed_shards = 0;  // finished by an earlier run
};

// Throws Error when there is no document, or the disk is full. Finished shards stay, so that a
// later run can resume.
TokenizeResult run_tokenize(const TokenizeJob& job);

}  // namespace hydramix
