// SPDX-License-Identifier: Apache-2.0
#include "base/json_reader.h"

#include <chrono>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

std::string nested(int64_t depth, const std::string& open, const std::string& close) {
  std::string text;
  for (int64_t i = 0; i < depth; ++i) text += open;
  text += "1";
  for (int64_t i = 0; i < depth; ++i) text += close;
  return text;
}

TEST(JsonReader, ReadsWhatTheLibraryReads) {
  const std::string text =
      R"( {"b": [1, -2, 2.5e3, true, null, "\u00e4\"", [], {}], "a": {"c": {"d": []}}, "": 18446744073709551615} )";
  EXPECT_EQ(parse_json<json>(text, "x"), json::parse(text));
  EXPECT_EQ(parse_json(text, "x").dump(), ordered_json::parse(text).dump()) << "and its order";
  for (const std::string value : {"1", "\"a\"", "null", "false", "[]", "[[1],[2,[3]]]"})
    EXPECT_EQ(parse_json(value, "x"), ordered_json::parse(value));
  EXPECT_EQ(parse_json("\xEF\xBB\xBF{}", "x"), ordered_json::object()) << "a byte order mark";
}

TEST(JsonReader, RefusesDeepNestingOfAnyLength) {
  EXPECT_EQ(parse_json(nested(kJsonDepth, "[", "]"), "x").size(), 1U);
  for (const int64_t depth : {kJsonDepth + 1, int64_t{100'000}, int64_t{3'000'000}}) {
    EXPECT_THROW_WITH(parse_json(nested(depth, "[", "]"), "a.json"), Error,
                      "a.json: is nested deeper than 64 levels.");
    EXPECT_THROW_WITH(parse_json<json>(nested(depth, "{\"k\":", "}"), "a.json"), Error,
                      "is nested deeper than 64 levels");
    EXPECT_TRUE(try_parse_json(std::string(static_cast<std::size_t>(depth), '[')).is_discarded());
  }
}

TEST(JsonReader, RefusesWhatWouldLoseAValueInSilence) {
  EXPECT_THROW_WITH(parse_json(R"({"a": 1, "b": {"a": 2}, "a": 3})", "x"), Error,
                    "x: has the key \"a\" twice in one object.");
  EXPECT_EQ(parse_json(R"({"a": {"a": 1}, "b": [{"a": 1}, {"a": 2}]})", "x").size(), 2U);
  EXPECT_THROW_WITH(parse_json(std::string_view("{}\0{", 4), "x"), Error,
                    "is not JSON at byte 3: a zero byte");
}

TEST(JsonReader, ErrorsSayWhereAndWhatToDo) {
  EXPECT_THROW_WITH(parse_json("{\"a\": tru}", "x", "Fetch it again."), Error,
                    "x: is not JSON at byte 10: syntax error");
  EXPECT_THROW_WITH(parse_json("", "x", "Fetch it again."), Error, ". Fetch it again.");
  for (const std::string text :
       {"", "{", "[1,]", "{\"a\"}", "1 2", "nan", "1e999", "\"\xff\"", "[}"}) {
    EXPECT_THROW(parse_json(text, "x"), Error) << text;
    EXPECT_TRUE(try_parse_json(text).is_discarded()) << text;
    EXPECT_FALSE(try_parse_json(text).is_object()) << text;
  }
}

TEST(JsonReader, ManyKeysTakeLinearTime) {
  std::string text = "{";
  for (int i = 0; i < 300'000; ++i) text += "\"" + std::to_string(i) + "\":0,";
  text.back() = '}';
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(parse_json(text, "x").size(), 300'000U);
  // Quadratic time would be minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
}

TEST(JsonReader, ReadsAFile) {
  const test::TemporaryFolder folder;
  write_file(folder / "a.json", "{\"a\": [1]}");
  EXPECT_EQ(read_json(folder / "a.json", kConfigFile)["a"][0], 1);
  write_file(folder / "a.json", "{\"a\": [1}");
  EXPECT_THROW_WITH(read_json(folder / "a.json", kConfigFile), Error,
                    "a.json: is not JSON at byte");
}

}  // namespace
}  // namespace hydramix
