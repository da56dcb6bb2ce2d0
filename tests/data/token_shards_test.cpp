// SPDX-License-Identifier: Apache-2.0
// Shards are read back as written, and damage to any file is detected.
#include "data/token_shards.h"

#include <fstream>
#include <random>
#include <thread>

#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/json_checksum.h"
#include "base/json_reader.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::TemporaryFolder;
using Ids = std::vector<int32_t>;

std::vector<Ids> random_documents(int count, int64_t vocabulary) {
  std::mt19937 random(7);
  std::vector<Ids> documents;
  for (int i = 0; i < count; ++i) {
    Ids& ids = documents.emplace_back(random() % 50);  // some are empty
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % static_cast<uint64_t>(vocabulary));
  }
  return documents;
}

void write_shards(const std::filesystem::path& folder, const std::vector<Ids>& documents,
                  int64_t vocabulary, int64_t shard_tokens = 100) {
  ShardIndex index;
  index.tokenizer = "0123456789abcdef";
  index.vocabulary = vocabulary;
  TokenShardsWriter writer(folder, index, shard_tokens);
  for (const Ids& ids : documents) writer.add(ids);
  writer.finish();
}

Ids read(const Documents& documents, int64_t number) {
  Ids ids;
  documents.read(number, ids);
  return ids;
}

// Replaces the first `from` in the index by `to`.
void edit_index(const TemporaryFolder& folder, const std::string& from, const std::string& to) {
  std::string text = read_file(folder / "index.json");
  const auto at = text.find(from);
  ASSERT_NE(at, std::string::npos) << from << " is not in " << text;
  write_file(folder / "index.json", text.replace(at, from.size(), to));
}

void edit_byte(const std::filesystem::path& path, std::size_t at, char xor_with) {
  std::string bytes = read_file(path);
  bytes.at(at) = static_cast<char>(bytes.at(at) ^ xor_with);
  write_file(path, bytes);
}

// Makes all checksums right again after an edit, as a hostile writer would.
void reseal(const TemporaryFolder& folder) {
  auto index = parse_json(read_file(folder / "index.json"), "index.json");
  for (auto& shard : index["shards"]) {
    const auto path = folder / shard["file"].get<std::string>();
    const std::string bytes = read_file(path);
    // The table has 4 bytes for each 64 KiB; these files have one part.
    const std::string body = bytes.substr(0, bytes.size() - 4);
    const auto sums = shard_checksums(std::as_bytes(std::span<const char>(body)));
    const auto table = std::as_bytes(std::span<const uint32_t>(sums));
    write_file(path, body + std::string(reinterpret_cast<const char*>(table.data()), table.size()));
    shard["crc32c"] = checksum_text(crc32c(table));
  }
  set_json_checksum(index);
  write_file(folder / "index.json", index.dump(1));
}

class TokenShardsOfWidth : public ::testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(, TokenShardsOfWidth, ::testing::Values(30522, 65536, 65537, 250000));

TEST_P(TokenShardsOfWidth, EveryDocumentIsReadBack) {
  const TemporaryFolder folder;
  auto documents = random_documents(200, GetParam());
  documents[3] = {static_cast<int32_t>(GetParam() - 1), 0};
  write_shards(folder.path(), documents, GetParam());
  const TokenShards shards(folder.path());
  EXPECT_EQ(shards.size(), 200);
  EXPECT_GT(shards.index().shards.size(), 10U);
  EXPECT_EQ(shards.index().id_bytes(), GetParam() <= 65536 ? 2 : 4);
  EXPECT_EQ(shards.tokenizer_fingerprint(), "0123456789abcdef");
  shards.verify();
  for (int64_t i = 0; i < 200; ++i) {
    EXPECT_EQ(read(shards, i), documents[static_cast<std::size_t>(i)]) << i;
    EXPECT_EQ(shards.length(i), std::ssize(documents[static_cast<std::size_t>(i)])) << i;
  }
}

TEST(TokenShards, ReadingAppends) {
  const TemporaryFolder folder;
  write_shards(folder.path(), {{1, 2}, {3}}, 10);
  const TokenShards shards(folder / "index.json");  // the index itself is also accepted
  Ids ids = {9};
  shards.read(1, ids);
  shards.read(0, ids);
  EXPECT_EQ(ids, (Ids{9, 3, 1, 2}));
}

TEST(TokenShards, AShardEndsWithTheDocumentThatFillsIt) {
  const TemporaryFolder folder;
  write_shards(folder.path(), {{1, 1, 1}, {2, 2}, {3, 3, 3, 3, 3, 3, 3}, {4}}, 10, 5);
  const TokenShards shards(folder.path());
  std::vector<int64_t> tokens;
  for (const auto& shard : shards.index().shards) tokens.push_back(shard.tokens);
  EXPECT_EQ(tokens, (std::vector<int64_t>{5, 7, 1}));
  EXPECT_EQ(shards.index().shards[2].file, "shard-00002.bin");
}

TEST(TokenShards, TheLayoutIsAsDocumented) {
  const TemporaryFolder folder;
  write_shards(folder.path(), {{1, 258}, {3}}, 1000);
  using namespace std::string_literals;
  EXPECT_EQ(read_file(folder / "shard-00000.bin"),
            "HMTOKENS\2\0\0\0\2\0\0\0"
            "\1\0\2\1\3\0\0\0"
            "\2\0\0\0\0\0\0\0"
            "\3\0\0\0\0\0\0\0"
            "\x12"
            "\x43"
            "\x81"
            "\x06"s);
}

TEST(TokenShards, ManyThreadsReadAtOnce) {
  const TemporaryFolder folder;
  const auto documents = random_documents(100, 1000);
  write_shards(folder.path(), documents, 1000);
  const TokenShards shards(folder.path());
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::size_t i = 0; i < 100; ++i)
        wrong[t] += read(shards, static_cast<int64_t>(i)) != documents[i];
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, std::vector<int>(4));
}

TEST(TokenShards, TheFingerprintDependsOnlyOnDataAndTokenizer) {
  const TemporaryFolder a, b, c;
  write_shards(a.path(), {{1, 2}, {3}}, 10);
  write_shards(b.path(), {{1, 2}, {3}}, 10);
  write_shards(c.path(), {{1}, {2, 3}}, 10);
  EXPECT_EQ(TokenShards(a.path()).fingerprint(), TokenShards(b.path()).fingerprint());
  EXPECT_NE(TokenShards(a.path()).fingerprint(), TokenShards(c.path()).fingerprint());
  EXPECT_EQ(TokenShards(a.path()).fingerprint().size(), 16U);
  edit_index(b, "0123456789abcdef", "0123456789abcdee");
  reseal(b);
  EXPECT_NE(TokenShards(a.path()).fingerprint(), TokenShards(b.path()).fingerprint());
}

TEST(TokenShards, DataOfAnotherTokenizerIsRefused) {
  const TemporaryFolder folder;
  write_shards(folder.path(), {{1}}, 10);
  const TokenShards shards(folder.path());
  shards.check_tokenizer("0123456789abcdef", "vocab.txt");
  EXPECT_THROW_WITH(shards.check_tokenizer("ffff", "other.txt"), Error,
                    "'tokenizer' is 0123456789abcdef, expected ffff of other.txt");
}

TEST(TokenShards, WithoutAnIndexItIsNotADataSet) {
  const TemporaryFolder folder;
  ShardIndex index;
  index.vocabulary = 10;
  TokenShardsWriter writer(folder.path(), index, 2);
  writer.add(Ids{1, 2, 3});
  writer.add(Ids{4});
  EXPECT_TRUE(std::filesystem::exists(folder / "shard-00000.bin"));
  EXPECT_FALSE(std::filesystem::exists(folder / "shard-00001.bin")) << "not finished yet";
  EXPECT_THROW_WITH(TokenShards(folder.path()), Error, "has no index.json");
  EXPECT_THROW_WITH(TokenShards(folder / "missing"), Error, "there is no such folder");
  writer.finish();
  EXPECT_EQ(TokenShards(folder.path()).size(), 2);
}

TEST(TokenShards, AnEmptyDataSetIsNotWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW_WITH(write_shards(folder.path(), {}, 10), Error, "no document was written");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenShards, IdsBeyondTheVocabularyAreNotWritten) {
  const TemporaryFolder folder;
  EXPECT_THROW_WITH(write_shards(folder.path(), {{1}, {10}}, 10), Error,
                    "document 1 has the id 10, expected 0 to 9");
  EXPECT_THROW_WITH(write_shards(folder.path(), {{-1}}, 10), Error, "has the id -1");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
}

TEST(TokenShards, DocumentsOutOfRangeAreAnError) {
  const TemporaryFolder folder;
  write_shards(folder.path(), {{1}, {2}}, 10);
  const TokenShards shards(folder.path());
  EXPECT_THROW_WITH(read(shards, 2), Error, "there is no document 2, expected 0 to 1");
  EXPECT_THROW_WITH(shards.length(-1), Error, "there is no document -1");
}

class DamagedShards : public ::testing::Test {
 protected:
  void SetUp() override { write_shards(folder_.path(), {{1, 2, 3}, {4, 5}, {6}}, 10, 5); }
  std::filesystem::path first() const { return folder_ / "shard-00000.bin"; }
  void open() const { TokenShards shards(folder_.path()); }

  TemporaryFolder folder_;
};

TEST_F(DamagedShards, AMissingShardIsNamed) {
  std::filesystem::remove(folder_ / "shard-00001.bin");
  EXPECT_THROW_WITH(open(), Error, "shard-00001.bin: is missing");
}

TEST_F(DamagedShards, AShardOfAnotherSizeIsNamed) {
  const std::string bytes = read_file(first());
  write_file(first(), bytes.substr(0, bytes.size() - 1));
  EXPECT_THROW_WITH(open(), Error, "shard-00000.bin: has 51 bytes, expected 52");
  write_file(first(), bytes + "x");
  EXPECT_THROW_WITH(open(), Error, "has 53 bytes, expected 52");
  write_file(first(), "");
  EXPECT_THROW_WITH(open(), Error, "has 0 bytes, expected 52");
}

TEST_F(DamagedShards, AWrongHeaderIsNamed) {
  edit_byte(first(), 0, 1);
  EXPECT_THROW_WITH(open(), Error, "does not begin with HMTOKENS");
  edit_byte(first(), 0, 1);
  edit_byte(first(), 8, 3);
  EXPECT_THROW_WITH(open(), Error, "has layout version 1, the index says 2");
  edit_byte(first(), 8, 3);
  edit_byte(first(), 12, 6);
  EXPECT_THROW_WITH(open(), Error, "has ids of 4 bytes, the index says 2");
}

TEST_F(DamagedShards, VerifyFindsEveryChangedByte) {
  const std::size_t size = read_file(first()).size();
  for (std::size_t at = 0; at < size; ++at) {
    edit_byte(first(), at, 0x10);
    EXPECT_THROW(TokenShards(folder_.path()).verify(), Error) << "byte " << at;
    edit_byte(first(), at, 0x10);
  }
  TokenShards(folder_.path()).verify();
}

TEST_F(DamagedShards, AnIdBeyondTheVocabularyIsAnErrorWhereItIsRead) {
  edit_byte(first(), 16 + 6, 0x40);  // 4 becomes 68
  reseal(folder_);
  const TokenShards shards(folder_.path());
  EXPECT_EQ(read(shards, 0), (Ids{1, 2, 3}));
  EXPECT_THROW_WITH(read(shards, 1), Error,
                    "document 1 has the id 68, the vocabulary 10 tokens. The data set is damaged");
}

TEST_F(DamagedShards, InvalidEndsAreAnError) {
  write_shards(folder_.path(), {{1, 2, 3}, {4}, {5}}, 10, 5);
  edit_byte(first(), 32, 0x40);  // the end of document 0
  reseal(folder_);
  const TokenShards shards(folder_.path());
  EXPECT_THROW_WITH(shards.length(0), Error, "document 0 goes from token 0 to 67 of 5");
  EXPECT_THROW_WITH(read(shards, 1), Error, "document 1 goes from token 67 to 4 of 5");
  EXPECT_EQ(read(shards, 2), Ids{5});
  edit_byte(first(), 32, 0x40);
  write_shards(folder_.path(), {{1, 2, 3}, {}, {4, 5}}, 10, 5);
  edit_byte(first(), 48, 1);  // the last end differs from the number of ids
  reseal(folder_);
  EXPECT_THROW_WITH(open(), Error, "its last document ends at token 4, expected 5");
}

TEST_F(DamagedShards, EveryWrongKeyOfTheIndexIsNamed) {
  const std::string good = read_file(folder_ / "index.json");
  const auto expect = [&](const std::string& from, const std::string& to,
                          const std::string& message) {
    edit_index(folder_, from, to);
    EXPECT_THROW_WITH(open(), Error, message);
    write_file(folder_ / "index.json", good);
  };
  expect("\"format\": \"hydramix token shards\"", "\"format\": \"x\"", "'format' is \"x\"");
  expect("\"version\": 2", "\"version\": 3", "'version' is 3, expected 1 or 2");
  expect("\"version\": 2", "\"version\": \"1\"", "'version' is \"1\", expected a count");
  expect("\"vocabulary\": 10", "\"vocabulary\": 0", "'vocabulary' is 0");
  expect("\"vocabulary\": 10", "\"vocabulary\": 70000", "'id_bits' is 16, expected 32");
  expect("\"vocabulary\": 10", "\"vocabularies\": 10", "lacks the key 'vocabulary'");
  expect("\"documents\": 3", "\"documents\": 4", "'documents' is 4, its shards have 3");
  expect("\"tokens\": 6", "\"tokens\": -6", "'tokens' is -6, expected a count");
  expect("\"bad_json\": 0", "\"bad_json\": 1e99", "'bad_json' is 1e+99");
  expect("\"tokens\": 5", "\"tokens\": 4", "'bytes' of shard-00000.bin is 52, expected 44");
  expect("\"tokens\": 5", "\"tokens\": 281474976710656", "expected a count");
  expect("shard-00000.bin", "../shard-00000.bin", "without a folder");
  expect("\"shards\": [", "\"shards\": 5, \"x\": [", "'shards' is not a list");
  expect("\"made_with\": {}", "\"made_with\": 5", "'made_with' is not an object");
  expect("\"crc32c\": \"", "\"crc32c\": \"x", "'crc32c' is");
  expect("{", "", "is not JSON at byte");
  write_file(folder_ / "index.json", good.substr(0, good.size() / 2));
  EXPECT_THROW_WITH(open(), Error, "index.json: is not JSON");
}

TEST_F(DamagedShards, EveryChangedByteIsNoticedWhereItIsRead) {
  const auto read_all = [&] {
    const TokenShards shards(folder_.path());
    for (int64_t i = 0; i < shards.size(); ++i) read(shards, i);
  };
  const std::size_t size = read_file(first()).size();
  for (std::size_t at = 0; at < size; ++at) {
    edit_byte(first(), at, 1);
    EXPECT_THROW(read_all(), Error) << "byte " << at;
    edit_byte(first(), at, 1);
  }
  read_all();
}

TEST_F(DamagedShards, EveryChangedByteOfTheIndexIsNoticed) {
  const auto path = folder_ / "index.json";
  const std::string good = read_file(path);
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const int change : {1, 16}) {
      auto damaged = good;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      // Other white space means the same.
      if (std::isspace(static_cast<unsigned char>(good[at])) &&
          std::isspace(static_cast<unsigned char>(damaged[at])))
        continue;
      std::ofstream(path, std::ios::binary) << damaged;  // faster than write_file()
      EXPECT_THROW(open(), Error) << "byte " << at << " as " << damaged[at];
    }
}

TEST_F(DamagedShards, TheIndexOfOtherShardsIsNoticed) {
  const TemporaryFolder other;
  write_shards(other.path(), {{1, 2, 4}, {4, 5}, {6}}, 10, 5);
  write_file(folder_ / "index.json", read_file(other / "index.json"));
  EXPECT_THROW_WITH(open(), Error, "shard-00000.bin: the checksum of its checksums is");
}

TEST(TokenShards, OnlyThePartsThatAreReadAreChecked) {
  const TemporaryFolder folder;
  std::vector<Ids> documents(50, Ids(2000));  // 200 kB in parts of 64 KiB
  for (std::size_t i = 0; i < documents.size(); ++i)
    for (std::size_t k = 0; k < 2000; ++k) documents[i][k] = static_cast<int32_t>((i + k) % 1000);
  write_shards(folder.path(), documents, 1000, 1 << 20);
  edit_byte(folder / "shard-00000.bin", 16 + 2 * 2000 * 40, 1);  // the first id of document 40
  const TokenShards shards(folder.path());
  EXPECT_EQ(read(shards, 0), documents[0]);
  EXPECT_EQ(read(shards, 20), documents[20]);
  EXPECT_THROW_WITH(read(shards, 40), Error, "the checksum of the 65536 bytes at 131072 is");
  EXPECT_THROW_WITH(read(shards, 41), Error, "the checksum of");  // in the same part
  EXPECT_THROW_WITH(shards.verify(), Error, "at 131072");
}

// A data set as version 1 wrote it.
TEST(TokenShards, DataSetsOfVersion1AreReadAndChecked) {
  using namespace std::string_literals;
  const TemporaryFolder folder;
  write_file(folder / "shard-00000.bin",
             "HMTOKENS\1\0\0\0\2\0\0\0"
             "\1\0\2\1\3\0\0\0"
             "\2\0\0\0\0\0\0\0"
             "\3\0\0\0\0\0\0\0"s);
  write_file(folder / "index.json", R"({
 "format": "hydramix token shards", "version": 1, "tokenizer": "0123456789abcdef",
 "vocabulary": 1000, "id_bits": 16, "documents": 2, "tokens": 3, "short_documents": 0,
 "malformed": {"bad_json": 0, "missing_field": 0, "not_a_string": 0, "not_utf8": 0, "too_long": 0,
               "damaged_archive": 0},
 "made_with": {},
 "shards": [{"file": "shard-00000.bin", "tokens": 3, "documents": 2, "bytes": 40,
             "crc32": "6175120c"}]})");
  {
    const TokenShards shards(folder.path());
    EXPECT_EQ(read(shards, 0), (Ids{1, 258}));
    EXPECT_EQ(read(shards, 1), Ids{3});
    shards.verify();
  }
  edit_byte(folder / "shard-00000.bin", 18, 1);
  const TokenShards shards(folder.path());
  EXPECT_THROW_WITH(read(shards, 0), Error, "the checksum of the 40 bytes at 0 is");
}

}  // namespace
}  // namespace hydramix
