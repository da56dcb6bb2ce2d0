// SPDX-License-Identifier: Apache-2.0
// A data set of token ids: files shard-00000.bin, ... (shard_file.h) and index.json
// (shard_index.h). Memory-mapped: opening costs nothing but a page a shard, and any document can be
// read at once, from many threads.
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
  // The folder or its index.json. Error when there is no index, or a shard is not as the index
  // says: missing, of another size, of another layout.
  explicit TokenShards(const std::filesystem::path& path);

  int64_t size() const override { return first_.back(); }
  int64_t length(int64_t document) const override;
  void read(int64_t document, std::vector<int32_t>& ids) const override;
  std::string tokenizer_fingerprint() const override { return index_.tokenizer; }
  std::string fingerprint() const override { return index_.fingerprint(); }

  const ShardIndex& index() const { return index_; }
  // Error unless the ids are those of this tokenizer; `name` is what the error calls it.
  void check_tokenizer(const std::string& tokenizer_fingerprint, const std::string& name) const;
  // Reads everything: checksums, ids, ends. `progress` gets the bytes of each shard that is fine.
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
  // `index` tells the tokenizer, and the shards that are there already when work is taken up again.
  TokenShardsWriter(std::filesystem::path folder, ShardIndex index, int64_t shard_tokens);

  // Adds a document. A shard ends with the document that fills it; true when this one did. Error
  // when an id is not of the vocabulary.
  bool add(std::span<const int32_t> ids);
  int64_t documents() const;  // also of the shard that is being written
  int64_t tokens() const;
  ShardIndex& index() { return index_; }  // of the shards that are finished
  void finish();                          // the last shard, then index.json

 private:
  void end_shard();

  std::filesystem::path folder_;
  ShardIndex index_;
  int64_t shard_tokens_;
  int64_t documents_before_, tokens_before_;  // in finished shards
  std::unique_ptr<ShardWriter> shard_;
};

}  // namespace hydramix
