// SPDX-License-Identifier: Apache-2.0
// hydramix tokenize: data sets, messages, exit codes, signals.
#include <csignal>
#include <iostream>
#include <map>
#include <sstream>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "cli/commands.h"
#include "data/token_shards.h"
#include "hydramix/error.h"
#include "hydramix/tokenizer.h"
#include "support/archives.h"
#include "support/command.h"

namespace hydramix {
namespace {

using test::contains;
using test::Result;
using test::TemporaryFolder;

class TokenizeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    write_file(folder_ / "vocab.txt",
               "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n##s\n.\nHello\n");
    write_file(folder_ / "in.txt", "Hello worlds.\n\nhello hello\nworld\n");
    write_file(folder_ / "in.json.gz", test::gzip("{\"text\": \"world\"}\n{\"text\": 1}\n"));
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  int call(std::vector<std::string> words, std::ostream& err) const {
    words.insert(words.begin(), {"hydramix", "tokenize"});
    std::vector<const char*> argv;
    for (const auto& word : words) argv.push_back(word.c_str());
    return run_command_line({tokenize_command()}, static_cast<int>(argv.size()), argv.data(),
                            std::cout, err);
  }

  Result run(const std::vector<std::string>& words) const {
    std::ostringstream errors;
    ::testing::internal::CaptureStdout();
    ::testing::internal::CaptureStderr();
    const int code = call(words, errors);
    std::cout << std::flush;
    return {code, ::testing::internal::GetCapturedStdout(),
            ::testing::internal::GetCapturedStderr() + errors.str()};
  }

  std::map<std::string, std::string> files(const std::string& out) const {
    std::map<std::string, std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / out))
      found[entry.path().filename().string()] = read_file(entry.path());
    return found;
  }

  std::vector<std::vector<int32_t>> documents(const std::string& out) const {
    const TokenShards shards(folder_ / out);
    std::vector<std::vector<int32_t>> all(static_cast<std::size_t>(shards.size()));
    for (std::size_t i = 0; i < all.size(); ++i) shards.read(static_cast<int64_t>(i), all[i]);
    return all;
  }

  TemporaryFolder folder_;
};

using DocumentIds = std::vector<std::vector<int32_t>>;

TEST_F(TokenizeCommand, TurnsTextIntoADataSet) {
  const Result made = run({path("in.txt"), path("in.json.gz"), "--vocab", path("vocab.txt"),
                           "--out", path("out"), "--threads", "2"});
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_TRUE(contains(made.out, "3 documents, 8 tokens (2.7 a document), 1 shard, data "))
      << made.out;
  EXPECT_TRUE(contains(made.out, "left out: 1 malformed (1 not_a_string), 0 too short"));
  EXPECT_TRUE(contains(made.err, "in.json.gz:2: not_a_string")) << made.err;
  EXPECT_EQ(documents("out"), (DocumentIds{{5, 6, 7, 8}, {5, 5, 6}, {6}}));
  EXPECT_EQ(TokenShards(folder_ / "out").tokenizer_fingerprint(),
            Tokenizer::load(folder_ / "vocab.txt").fingerprint());

  const Result again =
      run({path("in.txt"), path("in.json.gz"), "--vocab", path("vocab.txt"), "--out", path("out")});
  EXPECT_EQ(again.code, 0);
  EXPECT_TRUE(contains(again.err, "holds this data set already")) << again.err;
}

TEST_F(TokenizeCommand, OptionsReachTheWork) {
  const auto made = [&](std::vector<std::string> words, const std::string& out) {
    words.insert(words.begin(), {path("in.txt"), "--vocab", path("vocab.txt"), "--out", path(out)});
    const Result result = run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return documents(out);
  };
  EXPECT_EQ(made({"--cased"}, "cased"), (DocumentIds{{9, 6, 7, 8}, {5, 5, 6}}));
  EXPECT_EQ(made({"--document", "per-line"}, "lines"), (DocumentIds{{5, 6, 7, 8}, {5, 5}, {6}}));
  EXPECT_EQ(made({"--min-tokens", "4"}, "long"), (DocumentIds{{5, 6, 7, 8}}));
  EXPECT_EQ(made({"--limit-documents", "1"}, "one"), (DocumentIds{{5, 6, 7, 8}}));
  EXPECT_EQ(made({"--max-document-bytes", "15"}, "short"), (DocumentIds{{5, 6, 7, 8}}));
  made({"--shard-tokens", "1"}, "shards");
  EXPECT_EQ(TokenShards(folder_ / "shards").index().shards.size(), 2U);
}

TEST_F(TokenizeCommand, TheFolderWrittenToIsNoInput) {
  std::filesystem::create_directory(folder_ / "all");
  write_file(folder_ / "all/in.txt", "hello\n");
  for (const char* out : {"all/out", "all/out", "all/other"}) {
    const Result result =
        run({path("all"), "--vocab", path("vocab.txt"), "--out", path(out), "--on-error", "stop"});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(documents(out), DocumentIds{{5}});
  }
}

TEST_F(TokenizeCommand, WrongRequestsAreToldBeforeAnyWork) {
  const auto expect = [&](const std::vector<std::string>& words, int code,
                          const std::string& message) {
    const Result result = run(words);
    EXPECT_EQ(result.code, code);
    EXPECT_TRUE(contains(result.err, message)) << "expected " << message << ", got " << result.err;
    EXPECT_FALSE(std::filesystem::exists(folder_ / "out"));
  };
  const std::string in = path("in.txt"), vocab = path("vocab.txt"), out = path("out");
  expect({"--vocab", vocab, "--out", out}, 2, "no inputs. Name text files");
  expect({in, "--out", out}, 2, "--vocab is missing");
  expect({in, "--vocab", vocab}, 2, "--out is missing");
  expect({in, "--vocab", vocab, "--out", out, "--on-error", "ignore"}, 2, "skip");
  expect({in, "--vocab", vocab, "--out", out, "--document", "page"}, 2, "per-line");
  expect({in, "--vocab", vocab, "--out", out, "--shard-tokens", "0"}, 2, "--shard-tokens");
  expect({in, "--vocab", vocab, "--out", out, "--field", ""}, 2, "--field");
  expect({in, "--verify", out}, 2, "leave out inputs");
  expect({path("no.txt"), "--vocab", vocab, "--out", out}, 1, "no.txt: there is no such file");
  expect({in, "--vocab", path("no.txt"), "--out", out}, 1, "no.txt");
  expect({in, in, "--vocab", vocab, "--out", out}, 1, "is there twice");
  expect({path("."), "--vocab", vocab, "--out", path("")}, 2, ": is the input ");
  expect({path("in.json.gz"), "--on-error", "skip", "--min-tokens", "9", "--vocab", vocab, "--out",
          out},
         1, "the inputs have no document of 9 tokens or more");
}

TEST_F(TokenizeCommand, OtherOptionsAreNotMixedUnlessOverwriting) {
  const std::vector<std::string> words = {path("in.txt"), "--vocab", path("vocab.txt"), "--out",
                                          path("out")};
  ASSERT_EQ(run(words).code, 0);
  auto other = words;
  other.push_back("--cased");
  const Result refused = run(other);
  EXPECT_EQ(refused.code, 2);
  EXPECT_TRUE(contains(refused.err, "made with no --cased, now it is --cased")) << refused.err;
  other.push_back("--overwrite");
  EXPECT_EQ(run(other).code, 0);
  EXPECT_EQ(documents("out").front().front(), 9);
}

TEST_F(TokenizeCommand, AMalformedLineCanBeFatal) {
  const Result result = run({path("in.json.gz"), "--on-error", "stop", "--vocab", path("vocab.txt"),
                             "--out", path("out")});
  EXPECT_EQ(result.code, 1);
  EXPECT_TRUE(contains(result.err, "in.json.gz:2: not_a_string")) << result.err;
}

TEST_F(TokenizeCommand, VerifyPrintsWhatIsThereAndFindsDamage) {
  ASSERT_EQ(run({path("in.txt"), "--vocab", path("vocab.txt"), "--out", path("out")}).code, 0);
  const Result good = run({"--verify", path("out"), "--vocab", path("vocab.txt")});
  EXPECT_EQ(good.code, 0) << good.err;
  EXPECT_TRUE(contains(good.out, "2 documents, 7 tokens (3.5 a document)")) << good.out;
  EXPECT_TRUE(contains(good.out, "all checksums are right"));
  EXPECT_TRUE(contains(good.out, "2 ..         3            1  ####")) << good.out;

  const Result other = run({"--verify", path("out"), "--vocab", path("vocab.txt"), "--cased"});
  EXPECT_EQ(other.code, 1);
  EXPECT_TRUE(contains(other.err, "index.json: 'tokenizer' is")) << other.err;

  std::string shard = read_file(folder_ / "out/shard-00000.bin");
  shard[16] ^= 1;
  write_file(folder_ / "out/shard-00000.bin", shard);
  const Result bad = run({"--verify", path("out")});
  EXPECT_EQ(bad.code, 1);
  EXPECT_TRUE(contains(bad.err, "shard-00000.bin: the checksum of the")) << bad.err;
  EXPECT_FALSE(contains(bad.out, "right"));
}

TEST_F(TokenizeCommand, SignalsStopItCleanlyAndTheSameCommandGoesOn) {
  std::string text;
  for (int i = 0; i < 120'000; ++i) text += "hello worlds. hello hello world. worlds worlds.\n\n";
  write_file(folder_ / "long.txt", text);
  const auto words = [&](const std::string& out) {
    return std::vector<std::string>{path("long.txt"), "--vocab",   path("vocab.txt"),
                                    "--out",          path(out),   "--shard-tokens",
                                    "80000",          "--threads", "1"};
  };
  ASSERT_EQ(run(words("whole")).code, 0);

  std::signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const std::string out = concat("stopped", signal);
    std::string line = "tokenize";
    for (const auto& word : words(out)) line += " " + word;
    // base/atomic_file.cpp sends the signal once the first shard is there.
    const Result stopped =
        test::run(line, concat("HYDRAMIX_SIGNAL_AT=shard-00000.bin:renamed:", signal));
    EXPECT_EQ(stopped.code, 128 + signal) << stopped.err;
    const auto left = files(out);
    EXPECT_TRUE(left.count("resume.json") == 1 && left.count("index.json") == 0);
    for (const auto& [name, contents] : left) EXPECT_FALSE(contains(name, ".tmp.")) << name;

    const Result rest = run(words(out));
    EXPECT_EQ(rest.code, 0);
    EXPECT_TRUE(contains(rest.err, "continuing after")) << rest.err;
    EXPECT_EQ(files(out), files("whole"));
  }
}

}  // namespace
}  // namespace hydramix
