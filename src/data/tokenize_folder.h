// SPDX-License-Identifier: Apache-2.0
// The output folder of tokenization and its progress. resume.json is written after each shard: a
// killed run resumes after the last finished shard. index.json, written last, completes the data
// set.
#pragma once

#include <filesystem>
#include <string>

#include "data/shard_index.h"
#include "data/text_source.h"

namespace hydramix {

class TokenizeFolder {
 public:
  // Creates the folder if needed and locks it, so that two commands cannot write to it. Throws
  // UsageError when it holds a data set made with other options or inputs; `overwrite` removes that
  // first. `index` is used for a new data set.
  TokenizeFolder(std::filesystem::path path, ShardIndex index, bool overwrite);
  ~TokenizeFolder();
  TokenizeFolder(const TokenizeFolder&) = delete;
  TokenizeFolder& operator=(const TokenizeFolder&) = delete;

  bool is_complete() const { return is_complete_; }
  const ShardIndex& index() const { return index_; }  // shards that are finished
  const TextPosition& position() const { return position_; }

  void save(const ShardIndex& index, const TextPosition& position) const;
  void complete();  // after index.json was written
  void abandon();   // removes the data set, and the folder if it is new

 private:
  void lock();
  void load(bool overwrite);

  std::filesystem::path path_;
  ShardIndex index_;
  TextPosition position_;
  bool is_complete_ = false, is_new_ = false;
  int descriptor_ = -1;
};

// "--min-tokens 5, now it is --min-tokens 1": the first difference between the options or inputs of
// two data sets; empty when there is none.
std::string first_difference(const nlohmann::ordered_json& old_made_with,
                             const nlohmann::ordered_json& new_made_with);

}  // namespace hydramix
