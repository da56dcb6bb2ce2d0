// SPDX-License-Identifier: Apache-2.0
#include "data/shard_index.h"

#include <fmt/format.h>

#include "base/crc32c.h"
#include "base/fnv.h"
#include "base/json_checksum.h"
#include "base/quotes.h"
#include "data/json_value.h"

namespace hydramix {
namespace {

constexpr const char* kFormat = "hydramix token shards";
// Version 1 has no checksum of its own, and shards of layout 1.
constexpr int64_t kVersion = 2;

// The index names the checksum of each layout.
const char* checksum_key(int64_t layout) { return layout == 1 ? "crc32" : "crc32c"; }

ShardInfo parse_shard(const nlohmann::ordered_json& json, int64_t id_bytes,
                      const std::string& origin) {
  ShardInfo shard;
  shard.file = text_member(json, "file", origin);
  // A name, not a path: an untrusted index must not make us read other folders.
  HYDRAMIX_CHECK(!shard.file.empty() && shard.file.find('/') == std::string::npos, origin,
                 ": 'file' is ", in_quotes(shard.file),
                 ", expected a name such as shard-00000.bin "
                 "without a folder.");
  shard.tokens = count_member(json, "tokens", origin);
  shard.documents = count_member(json, "documents", origin);
  shard.bytes = count_member(json, "bytes", origin);
  shard.layout = json.contains(checksum_key(1)) ? 1 : 2;
  const char* key = checksum_key(shard.layout);
  const auto text = text_member(json, key, origin);
  const auto sum = parse_checksum(text);
  HYDRAMIX_CHECK(sum, origin, ": '", key, "' is ", in_quotes(text), ", expected 8 hex digits. ",
                 kDamagedData);
  shard.checksum = *sum;
  const int64_t expected = shard_bytes(shard, id_bytes);
  HYDRAMIX_CHECK(shard.bytes == expected, origin, ": 'bytes' of ", escaped(shard.file), " is ",
                 shard.bytes, ", expected ", expected, " for ", shard.tokens, " tokens of ",
                 shard.documents,
                 " documents. The file is damaged: restore it, or make the data "
                 "set again.");
  return shard;
}

}  // namespace

int64_t ShardIndex::documents() const {
  int64_t sum = 0;
  for (const ShardInfo& shard : shards) sum += shard.documents;
  return sum;
}

int64_t ShardIndex::tokens() const {
  int64_t sum = 0;
  for (const ShardInfo& shard : shards) sum += shard.tokens;
  return sum;
}

std::string ShardIndex::fingerprint() const {
  uint64_t hash = kFnvStart;
  const auto add = [&hash](const std::string& text) { hash = fnv1a(text + '\n', hash); };
  add(tokenizer);
  for (const ShardInfo& s : shards)
    add(fmt::format("{} {} {:08x}", s.tokens, s.documents, s.checksum));
  return fmt::format("{:016x}", hash);
}

nlohmann::ordered_json ShardIndex::to_json() const {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const ShardInfo& s : shards)
    list.push_back({{"file", s.file},
                    {"tokens", s.tokens},
                    {"documents", s.documents},
                    {"bytes", s.bytes},
                    {checksum_key(s.layout), checksum_text(s.checksum)}});
  nlohmann::ordered_json json{{"format", kFormat},
                              {"version", kVersion},
                              {"tokenizer", tokenizer},
                              {"vocabulary", vocabulary},
                              {"id_bits", 8 * id_bytes()},
                              {"documents", documents()},
                              {"tokens", tokens()},
                              {"short_documents", short_documents},
                              {"malformed", malformed.to_json()},
                              {"made_with", made_with},
                              {"shards", list}};
  set_json_checksum(json);
  return json;
}

ShardIndex ShardIndex::from_json(const nlohmann::ordered_json& json, const std::string& origin) {
  const std::string format = text_member(json, "format", origin);
  HYDRAMIX_CHECK(format == kFormat, origin, ": 'format' is ", in_quotes(format), ", expected \"",
                 kFormat, "\". Name a folder that hydramix tokenize wrote.");
  const int64_t version = count_member(json, "version", origin);
  HYDRAMIX_CHECK(version == 1 || version == kVersion, origin, ": 'version' is ", version,
                 ", expected 1 or ", kVersion,
                 ". Use the version of hydramix that wrote it, or make the data set again.");
  ShardIndex index;
  index.tokenizer = text_member(json, "tokenizer", origin);
  index.vocabulary = count_member(json, "vocabulary", origin);
  HYDRAMIX_CHECK(index.vocabulary > 0 && index.vocabulary <= int64_t{1} << 31, origin,
                 ": 'vocabulary' is ", index.vocabulary, ", expected 1 to 2147483648 tokens.");
  const int64_t bits = count_member(json, "id_bits", origin);
  HYDRAMIX_CHECK(bits == 8 * index.id_bytes(), origin, ": 'id_bits' is ", bits, ", expected ",
                 8 * index.id_bytes(), " for a vocabulary of ", index.vocabulary,
                 ". The file is damaged: restore it, or make the data set again.");
  index.short_documents = count_member(json, "short_documents", origin);
  index.malformed = DefectCounts::from_json(member(json, "malformed", origin), origin);
  index.made_with = member(json, "made_with", origin);
  HYDRAMIX_CHECK(index.made_with.is_object(), origin,
                 ": 'made_with' is not an object. The file is "
                 "damaged: restore it, or make the data set again.");
  const auto& shards = member(json, "shards", origin);
  HYDRAMIX_CHECK(shards.is_array(), origin,
                 ": 'shards' is not a list. The file is damaged: "
                 "restore it, or make the data set again.");
  int64_t bytes = 0;  // bounds tokens and documents too, so that no sum overflows
  for (const auto& shard : shards) {
    index.shards.push_back(parse_shard(shard, index.id_bytes(), origin));
    bytes += index.shards.back().bytes;
    HYDRAMIX_CHECK(bytes < kLargestCount, origin, ": 'bytes' of its shards are more than ",
                   kLargestCount,
                   " together. The file is damaged: restore it, or make the data "
                   "set again.");
  }
  for (const auto& [key, sum] :
       {std::pair("documents", index.documents()), std::pair("tokens", index.tokens())})
    HYDRAMIX_CHECK(count_member(json, key, origin) == sum, origin, ": '", key, "' is ",
                   count_member(json, key, origin), ", its shards have ", sum,
                   ". The file is damaged: restore it, or make the data set again.");
  const bool has_sum = check_json_checksum(json, origin, kDamagedData);
  HYDRAMIX_CHECK(has_sum || version == 1, origin, ": lacks the key '", kJsonChecksum, "'. ",
                 kDamagedData);
  return index;
}

}  // namespace hydramix
