// SPDX-License-Identifier: Apache-2.0
// A data set of token ids: files shard-00000.bin, ... (shard_file.h) and index.json
// (shard_index.h). Memory-mapped: opening reads one page per shard, and many threads can read any
// document.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/documents.h"
#include "data/shard_index.h"

namespace hydramix {

class TokenShards final : public Documents {
 public:
  // The folder or its index.json. Throws Error when there is no index, or a shard does not match
  // it: missing, of another size or layout.
  explicit TokenShards(const std::filesystem::path& path);

  int64_t size() const override { return first_.back(); }
  int64_t length(int64_t document) const override;
  void read(int64_t document, std::vector<int32_t>& ids) const override;
  std::string tokenizer_fingerprint() const override { return index_.tokenizer; }
  std::string fingerprint() const override { return index_.fingerprint(); }

  const ShardIndex& index() const { return index_; }
  // Throws Error unless the ids come from this tokenizer; `name` identifies it in the message.
  void check_tokenizer(const std::string& tokenizer_fingerprint, const std::string& name) const;
  // Checks all checksums, ids and ends. `progress` is called with the bytes of each valid shard.
  void verify(const std::function<void(int64_t)>& progress = {}) const;

 private:
  struct Place {
    const ShardReader* shard;
    int64_t document;  // within it
  };
  Place find(int64_t document) const;

  std::filesystem::path origin_;
  ShardIndex index_;
  std::vector<std::unique_ptr<ShardReader>> shards_;
  std::vector<int64_t> first_;  // number of each shard's first document, then the size
};

// Writes such a folder. Until finish() it has no index.json and is not a data set.
class TokenShardsWriter {
 public:
  // `index` names the tokenizer and, on resume, the finished shards.
  TokenShardsWriter(std::filesystem::path folder, ShardIndex index, int64_t shard_tokens);

  // Adds a document. A shard ends with the document that fills it; returns true for that document.
  // Throws Error when an id is outside the vocabulary.
  bool add(std::span<const int32_t> ids);
  int64_t documents() const;  // including the shard in progress
  int64_t tokens() const;
  ShardIndex& index() { return index_; }  // of the finished shards
  void finish();                          // writes the last shard, then index.json

 private:
  void end_shard();

  std::filesystem::path folder_;
  ShardIndex index_;
  int64_t shard_tokens_;
  int64_t documents_before_, tokens_before_;  // in finished shards
  std::unique_ptr<ShardWriter> shard_;
};

}  // namespace hydramix
