// SPDX-License-Identifier: Apache-2.0
// The folder that a data set is being written to, and how far that has come. resume.json is written
// after each shard; whoever is killed takes up the work behind the last one. index.json, written
// last, ends it.
#pragma once

#include <filesystem>
#include <string>

#include "data/shard_index.h"
#include "data/text_source.h"

namespace hydramix {

class TokenizeFolder {
 public:
  // Makes the folder if need be and locks it, so that two commands do not write to one folder.
  // UsageError when it holds a data set made with other options or inputs, unless `overwrite`,
  // which removes that first. `index` is that of a new data set.
  TokenizeFolder(std::filesystem::path path, ShardIndex index, bool overwrite);
  ~TokenizeFolder();
  TokenizeFolder(const TokenizeFolder&) = delete;
  TokenizeFolder& operator=(const TokenizeFolder&) = delete;

  bool is_complete() const { return is_complete_; }
  const ShardIndex& index() const { return index_; }  // shards finished before
  const TextPosition& position() const { return position_; }

  void save(const ShardIndex& index, const TextPosition& position) const;
  void complete();  // after index.json was written
  void abandon();   // nothing came of it: leaves no trace

 private:
  void lock();
  void load(bool overwrite);

  std::filesystem::path path_;
  ShardIndex index_;
  TextPosition position_;
  bool is_complete_ = false, is_new_ = false;
  int descriptor_ = -1;
};

// "--min-tokens 5, now it is --min-tokens 1": the first thing that two data sets were made with
// differently; empty when there is none.
std::string first_difference(const nlohmann::ordered_json& old_made_with,
                             const nlohmann::ordered_json& new_made_with);

}  // namespace hydramix
