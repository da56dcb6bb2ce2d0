// SPDX-License-Identifier: Apache-2.0
#include "data/token_shards.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "data/json_value.h"

namespace hydramix {
namespace {

std::filesystem::path index_path(const std::filesystem::path& path) {
  HYDRAMIX_CHECK(std::filesystem::exists(path), path.string(),
                 ": there is no such folder. Make it: hydramix tokenize INPUTS --vocab FILE --out ",
                 path.string());
  if (!std::filesystem::is_directory(path)) return path;
  auto index = path / kIndexName;
  HYDRAMIX_CHECK(std::filesystem::exists(index), path.string(), ": has no ", kIndexName,
                 ", so it is no data set, or one that is not finished. Run the hydramix tokenize "
                 "command that writes it to its end.");
  return index;
}

}  // namespace

TokenShards::TokenShards(const std::filesystem::path& path) : origin_(index_path(path)) {
  index_ = ShardIndex::from_json(read_json(origin_, kIndexFile, kDamagedData), origin_.string());
  const auto folder = origin_.parent_path();
  first_.push_back(0);
  for (const ShardInfo& info : index_.shards) {
    shards_.push_back(
        std::make_unique<ShardReader>(folder, info, index_.id_bytes(), index_.vocabulary));
    first_.push_back(first_.back() + info.documents);
  }
  HYDRAMIX_CHECK(size() > 0, origin_.string(),
                 ": 'documents' is 0, expected one at least. Make the data set again.");
}

TokenShards::Place TokenShards::find(int64_t document) const {
  HYDRAMIX_CHECK(document >= 0 && document < size(), origin_.string(), ": there is no document ",
                 document, ", expected 0 to ", size() - 1, ".");
  // The last shard that begins at or before the document; this skips empty shards.
  const auto next = std::upper_bound(first_.begin(), first_.end(), document);
  const auto shard = static_cast<std::size_t>(next - first_.begin()) - 1;
  return {shards_[shard].get(), document - first_[shard]};
}

int64_t TokenShards::length(int64_t document) const {
  const Place place = find(document);
  return place.shard->length(place.document);
}

void TokenShards::read(int64_t document, std::vector<int32_t>& ids) const {
  const Place place = find(document);
  place.shard->read(place.document, ids);
}

void TokenShards::check_tokenizer(const std::string& tokenizer_fingerprint,
                                  const std::string& name) const {
  HYDRAMIX_CHECK(tokenizer_fingerprint == index_.tokenizer, origin_.string(), ": 'tokenizer' is ",
                 index_.tokenizer, ", expected ", tokenizer_fingerprint, " of ", name,
                 ". Name the vocabulary that the data set was made with, or make it "
                 "again with this one.");
}

void TokenShards::verify(const std::function<void(int64_t)>& progress) const {
  for (const auto& shard : shards_) {
    shard->verify();
    if (progress) progress(shard->info().bytes);
  }
}

TokenShardsWriter::TokenShardsWriter(std::filesystem::path folder, ShardIndex index,
                                     int64_t shard_tokens)
    : folder_(std::move(folder)),
      index_(std::move(index)),
      shard_tokens_(shard_tokens),
      documents_before_(index_.documents()),
      tokens_before_(index_.tokens()) {}

int64_t TokenShardsWriter::documents() const {
  return documents_before_ + (shard_ ? shard_->info().documents : 0);
}

int64_t TokenShardsWriter::tokens() const {
  return tokens_before_ + (shard_ ? shard_->info().tokens : 0);
}

bool TokenShardsWriter::add(std::span<const int32_t> ids) {
  for (const int32_t id : ids)
    HYDRAMIX_CHECK(id >= 0 && id < index_.vocabulary, folder_.string(), ": document ", documents(),
                   " has the id ", id, ", expected 0 to ", index_.vocabulary - 1,
                   ". Check that the tokenizer is the one that the data set is written for.");
  if (!shard_)
    shard_ = std::make_unique<ShardWriter>(
        folder_, fmt::format("shard-{:05}.bin", index_.shards.size()), index_.id_bytes());
  shard_->add(ids);
  if (shard_->info().tokens < shard_tokens_) return false;
  end_shard();
  return true;
}

void TokenShardsWriter::end_shard() {
  index_.shards.push_back(shard_->commit());
  documents_before_ += index_.shards.back().documents;
  tokens_before_ += index_.shards.back().tokens;
  shard_.reset();
}

void TokenShardsWriter::finish() {
  if (shard_) end_shard();
  HYDRAMIX_CHECK(!index_.shards.empty(), folder_.string(),
                 ": no document was written, and a data set has one at least.");
  write_file(folder_ / kIndexName, json_text(index_.to_json(), 1) + "\n");
}

}  // namespace hydramix
