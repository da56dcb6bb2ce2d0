// SPDX-License-Identifier: Apache-2.0
// index.json, the table of contents of a data set. It is written last and atomically: a folder
// without it is not a data set.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "data/malformed.h"
#include "data/shard_file.h"

namespace hydramix {

inline constexpr const char* kIndexName = "index.json";

struct ShardIndex {
  std::string tokenizer;   // Tokenizer::fingerprint
  int64_t vocabulary = 0;  // size of the tokenizer's vocabulary
  std::vector<ShardInfo> shards;
  DefectCounts malformed;       // skipped lines of the input
  int64_t short_documents = 0;  // skipped for too few tokens
  nlohmann::ordered_json made_with = nlohmann::ordered_json::object();  // options and input files

  int64_t id_bytes() const { return vocabulary <= 65536 ? 2 : 4; }
  int64_t documents() const;
  int64_t tokens() const;
  // Hash of the data and the tokenizer, independent of `made_with`: 16 hex digits.
  std::string fingerprint() const;

  nlohmann::ordered_json to_json() const;
  // Error names `origin` and the key.
  static ShardIndex from_json(const nlohmann::ordered_json& json, const std::string& origin);
};

}  // namespace hydramix
