// SPDX-License-Identifier: Apache-2.0
// hydramix make-data: the files it writes, their contents, and the requests it refuses.
#include <zlib.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "base/read_file.h"
#include "cli/commands.h"
#include "hydramix/tokenizer.h"
#include "images/drawn_images.h"
#include "language/glue.h"
#include "language/language_documents.h"
#include "support/expect.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

struct Result {
  int status;
  std::string out, err;
};

Result make_data(const std::string& arguments, const fs::path& folder) {
  std::vector<std::string> words = {"hydramix", "make-data", "--out", folder.string()};
  std::istringstream stream(arguments);
  for (std::string word; stream >> word;) words.push_back(word);
  std::vector<const char*> argv;
  for (const auto& word : words) argv.push_back(word.c_str());
  std::ostringstream out, err;
  testing::internal::CaptureStdout();
  testing::internal::CaptureStderr();
  const int status =
      run_command_line({make_data_command()}, static_cast<int>(argv.size()), argv.data(), out, err);
  std::fflush(stdout);
  const std::string printed = testing::internal::GetCapturedStdout();
  testing::internal::GetCapturedStderr();
  return {status, out.str() + printed, err.str()};
}

std::set<std::string> files_in(const fs::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) names.insert(fs::relative(entry.path(), folder).string());
  return names;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::string gunzipped(const fs::path& path) {
  gzFile file = gzopen(path.c_str(), "rb");
  std::string text;
  std::array<char, 4096> buffer;
  for (int n; (n = gzread(file, buffer.data(), buffer.size())) > 0;)
    text.append(buffer.data(), static_cast<std::size_t>(n));
  EXPECT_EQ(gzclose(file), Z_OK);
  return text;
}

TEST(MakeData, TextIsDocumentsWithEmptyLinesBetween) {
  const test::TemporaryFolder folder;
  const Result result = make_data("text --documents 30 --validation 7 --seed 4", folder / "a");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(files_in(folder / "a"),
            (std::set<std::string>{"train.txt", "valid.kinds.jsonl", "valid.txt", "vocab.txt"}));
  const Language language({.seed = 4});
  const auto lines = lines_of(read_file(folder / "a/train.txt"));
  ASSERT_EQ(lines.size(), 59u);
  for (std::size_t i = 0; i < lines.size(); ++i)
    EXPECT_EQ(lines[i], i % 2 ? "" : language.text(language.document(static_cast<int64_t>(i / 2))));
  EXPECT_EQ(lines_of(read_file(folder / "a/valid.txt"))[2],
            language.text(language.document(1, Split::kValidation)));
  const auto kinds = lines_of(read_file(folder / "a/valid.kinds.jsonl"));
  ASSERT_EQ(kinds.size(), 7u);
  const auto document = language.document(6, Split::kValidation);
  const auto json = nlohmann::json::parse(kinds[6]);
  ASSERT_EQ(json["words"].size(), document.words.size());
  for (std::size_t i = 0; i < document.words.size(); ++i) {
    EXPECT_EQ(json["kinds"][i], kind_name(document.words[i].kind));
    EXPECT_EQ(json["words"][i],
              language.vocabulary()[static_cast<std::size_t>(document.words[i].id)]);
  }
  EXPECT_EQ(Tokenizer::load(folder / "a/vocab.txt").fingerprint(),
            language_tokenizer().fingerprint());
  EXPECT_NE(result.out.find("train.txt: 30 documents, "), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("valid.txt: 7 documents, "), std::string::npos) << result.out;
}

TEST(MakeData, C4HasItsNamesAndItsFields) {
  const test::TemporaryFolder folder;
  const Result result = make_data("c4 --documents 25 --validation 6 --shards 3", folder.path());
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(files_in(folder.path()),
            (std::set<std::string>{"en/c4-train.00000-of-00003.json.gz",
                                   "en/c4-train.00001-of-00003.json.gz",
                                   "en/c4-train.00002-of-00003.json.gz",
                                   "en/c4-validation.00000-of-00001.json.gz", "vocab.txt"}));
  const Language language;
  int64_t document = 0;
  for (const char* name : {"c4-train.00000-of-00003.json.gz", "c4-train.00001-of-00003.json.gz",
                           "c4-train.00002-of-00003.json.gz"}) {
    for (const auto& line : lines_of(gunzipped(folder / "en" / name))) {
      const auto json = nlohmann::ordered_json::parse(line);
      EXPECT_EQ(json["text"], language.text(language.document(document++)));
      EXPECT_EQ(json.size(), 3u);
      EXPECT_EQ(json["timestamp"].get<std::string>().size(), 20u);
      EXPECT_TRUE(json["url"].get<std::string>().starts_with("https://"));
    }
  }
  EXPECT_EQ(document, 25);
  EXPECT_EQ(lines_of(gunzipped(folder / "en/c4-validation.00000-of-00001.json.gz")).size(), 6u);
}

TEST(MakeData, GlueIsEightFoldersOfTheOfficialNames) {
  const test::TemporaryFolder folder;
  const Result result = make_data("glue --train 24 --dev 12 --test 6 --seed 9", folder.path());
  ASSERT_EQ(result.status, 0) << result.err;
  std::set<std::string> expected;
  for (const auto& task : glue_tasks()) {
    for (const auto& file : make_glue_task(task, {24, 12, 6}, 9)) {
      expected.insert(file.path);
      EXPECT_EQ(read_file(folder / file.path), file.contents);
    }
  }
  EXPECT_EQ(expected.size(), 7u * 3 + 5);
  EXPECT_EQ(files_in(folder.path()), expected);
  EXPECT_NE(result.out.find("MNLI/dev_mismatched.tsv: 12 rows"), std::string::npos);
}

TEST(MakeData, EqualOptionsGiveEqualFiles) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a", "b"})
    ASSERT_EQ(make_data("c4 --documents 9 --validation 2", folder / name).status, 0);
  ASSERT_EQ(make_data("c4 --documents 9 --validation 2 --seed 2", folder / "c").status, 0);
  for (const auto& name : files_in(folder / "a")) {
    EXPECT_EQ(read_file(folder / "a" / name), read_file(folder / "b" / name)) << name;
    const bool depends_on_seed = name != "vocab.txt";
    EXPECT_EQ(read_file(folder / "a" / name) != read_file(folder / "c" / name), depends_on_seed);
  }
}

TEST(MakeData, KeepsExistingFilesWithoutOverwrite) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "vocab.txt") << "mine\n";
  const Result refused = make_data("text --documents 3 --validation 2", folder.path());
  EXPECT_EQ(refused.status, 1);
  EXPECT_NE(refused.err.find("vocab.txt: there is a file of this name already"), std::string::npos)
      << refused.err;
  EXPECT_EQ(files_in(folder.path()), std::set<std::string>{"vocab.txt"});
  EXPECT_EQ(read_file(folder / "vocab.txt"), "mine\n");
  EXPECT_EQ(make_data("text --documents 3 --validation 2 --overwrite", folder.path()).status, 0);
  EXPECT_NE(read_file(folder / "vocab.txt"), "mine\n");
}

TEST(MakeData, ImagesAreAFolderPerClass) {
  const test::TemporaryFolder folder;
  const std::string arguments = "images --train 20 --validation 10 --side 16 --seed 3";
  const Result result = make_data(arguments, folder / "a");
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(files_in(folder / "a").size(), 31u);
  const DrawnOptions drawn{.train = 20, .validation = 10, .side = 16, .seed = 3};
  for (const ImageSplit split : {ImageSplit::kTrain, ImageSplit::kValidation}) {
    const auto read = open_images(folder / "a", split);
    const auto expected = drawn_images(drawn, split);
    ASSERT_EQ(read->size(), expected->size());
    for (int64_t i = 0; i < read->size(); ++i) {
      const fs::path path = read->name(i);
      const int64_t number = std::stoll(path.stem().string());
      EXPECT_EQ(read->load(i).rgb, expected->load(number).rgb);
      EXPECT_EQ(path.parent_path().filename(),
                expected->classes()[static_cast<std::size_t>(expected->label(number))]);
    }
  }
  // An interrupted run continues; other options are refused.
  fs::remove(folder / "a/val/disc/00000000.png");
  const Result again = make_data(arguments, folder / "a");
  EXPECT_NE(again.out.find("30 images in 10 classes, 29 of them by an earlier run"),
            std::string::npos)
      << again.out;
  EXPECT_EQ(files_in(folder / "a").size(), 31u);
  const Result other = make_data("images --train 20 --validation 10 --side 17", folder / "a");
  EXPECT_EQ(other.status, 1);
  EXPECT_NE(other.err.find("exists already, and not with these options"), std::string::npos);
  EXPECT_EQ(make_data("images --train 10 --validation 10 --side 16 --overwrite --format jpeg",
                      folder / "a")
                .status,
            0);
  EXPECT_TRUE(fs::exists(folder / "a/val/disc/00000000.jpeg"));
}

TEST(MakeData, ImagesCanBeInCifarsFormat) {
  const test::TemporaryFolder folder;
  ASSERT_EQ(make_data("images --format cifar10 --train 30 --validation 10", folder / "a").status,
            0);
  EXPECT_EQ(files_in(folder / "a"),
            (std::set<std::string>{"batches.meta.txt", "data_batch_1.bin", "test_batch.bin"}));
  const auto train = open_images(folder / "a", ImageSplit::kTrain);
  ASSERT_EQ(train->size(), 30);
  EXPECT_EQ(train->classes()[4], "cross");
  EXPECT_EQ(train->label(17), 7);
  EXPECT_EQ(train->load(17).rgb, draw_image({1, ImageSplit::kTrain, 17}, {32, 32}).rgb);
}

TEST(MakeData, WrongRequestsAreNamed) {
  const test::TemporaryFolder folder;
  const auto expect_refused = [&](const std::string& arguments, int status,
                                  const std::string& message) {
    const Result result = make_data(arguments, folder / "x");
    EXPECT_EQ(result.status, status);
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
    EXPECT_TRUE(files_in(folder.path()).empty());
  };
  expect_refused("", 2, "ACTION");
  expect_refused("glu", 2, "expected one of: text, c4, glue, examples, images");
  expect_refused("text --documents 0", 2, "--documents");
  expect_refused("c4 --documents 2 --shards 3", 2, "Lower --shards or raise --documents");
  expect_refused("images --format cifar10 --side 64", 2, "holds images of 32 x 32");
  expect_refused("images --side 8", 2, "--side");
  expect_refused("text --shortest 60 --longest 70", 2, "Make longest at least 80");
}

TEST(MakeData, AFolderThatCannotBeMadeIsNamed) {
  const test::TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  const Result result = make_data("text --documents 2 --validation 1", folder / "file/below");
  EXPECT_EQ(result.status, 1);
  EXPECT_NE(result.err.find("file/below"), std::string::npos) << result.err;
}

}  // namespace
}  // namespace hydramix
