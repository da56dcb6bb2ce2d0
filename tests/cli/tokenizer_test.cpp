// SPDX-License-Identifier: Apache-2.0
// hydramix tokenizer: its output, its files and its error messages.
#include <unistd.h>

#include <nlohmann/json.hpp>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "cli/command.h"
#include "cli/commands.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using nlohmann::json;

struct Result {
  int status;
  std::string out, err;
};

// Redirects the streams of the process during the call.
class Lent {
 public:
  Lent(std::ios& stream, std::streambuf* buffer) : stream_(stream), before_(stream.rdbuf(buffer)) {}
  ~Lent() { stream_.rdbuf(before_); }
  Lent(const Lent&) = delete;
  Lent& operator=(const Lent&) = delete;

 private:
  std::ios& stream_;
  std::streambuf* before_;
};

// Lets the descriptor of the standard input be a file with this text.
class StandardInput {
 public:
  explicit StandardInput(const std::string& text) : before_(dup(STDIN_FILENO)) {
    std::FILE* file = std::tmpfile();
    std::fwrite(text.data(), 1, text.size(), file);
    std::rewind(file);
    dup2(fileno(file), STDIN_FILENO);
    std::fclose(file);
  }
  ~StandardInput() {
    dup2(before_, STDIN_FILENO);
    close(before_);
  }
  StandardInput(const StandardInput&) = delete;
  StandardInput& operator=(const StandardInput&) = delete;

 private:
  int before_;
};

Result run(std::vector<std::string> words, const std::string& input = "") {
  words.insert(words.begin(), {"hydramix", "tokenizer"});
  std::vector<const char*> arguments;
  for (const auto& word : words) arguments.push_back(word.c_str());
  std::ostringstream out, err;
  const Lent lent_out(std::cout, out.rdbuf());
  const StandardInput lent_in(input);
  const int status = run_command_line({tokenizer_command()}, static_cast<int>(arguments.size()),
                                      arguments.data(), out, err);
  return {status, out.str(), err.str()};
}

class TokenizerCommand : public testing::Test {
 protected:
  void SetUp() override {
    write_file(vocab_, "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nhello\nworld\n,\nun\n##able\nUn\n");
  }
  std::string write(const std::string& name, const std::string& contents) {
    write_file(folder_ / name, contents);
    return (folder_ / name).string();
  }
  void expect_refused(const std::vector<std::string>& words, int status, const std::string& message,
                      const std::string& input = "") {
    const Result result = run(words, input);
    EXPECT_EQ(result.status, status);
    EXPECT_NE(result.err.find(message), std::string::npos) << result.err;
  }

  test::TemporaryFolder folder_;
  const std::string vocab_ = (folder_ / "vocab.txt").string();
};

constexpr const char* kHelloWorld =
    R"({"ids":[2,5,7,6,3],"tokens":["[CLS]","hello",",","world","[SEP]"],)"
    R"("offsets":[[0,0],[0,5],[5,6],[7,12],[0,0]],"type_ids":[0,0,0,0,0]})"
    "\n";

TEST_F(TokenizerCommand, EncodesArgumentsLinesAndJson) {
  const Result arguments = run({"encode", "--vocab", vocab_, "Hello, world", "unable"});
  EXPECT_EQ(arguments.status, 0) << arguments.err;
  EXPECT_EQ(arguments.out.substr(0, arguments.out.find('\n') + 1), kHelloWorld);
  EXPECT_EQ(json::parse(arguments.out.substr(arguments.out.find('\n')))["tokens"],
            json({"[CLS]", "un", "##able", "[SEP]"}));
  EXPECT_EQ(run({"encode", "--vocab", vocab_}, "Hello, world\n").out, kHelloWorld);
  EXPECT_EQ(run({"encode", "--vocab", vocab_, "--jsonl", "-"}, "\"Hello, world\"\n").out,
            kHelloWorld);
  const std::string lines = write("in.jsonl", "\"Hello, world\"\n[\"hello\", \"world\"]\n");
  const Result result = run({"encode", "--vocab", vocab_, "--jsonl", lines});
  EXPECT_EQ(result.out,
            std::string(kHelloWorld) +
                R"({"ids":[2,5,3,6,3],"tokens":["[CLS]","hello","[SEP]","world","[SEP]"],)"
                R"("offsets":[[0,0],[0,5],[0,0],[0,5],[0,0]],"type_ids":[0,0,0,1,1]})"
                "\n");
}

TEST_F(TokenizerCommand, CutsAndKeepsCase) {
  EXPECT_EQ(json::parse(
                run({"encode", "--vocab", vocab_, "--max-length", "3", "hello world"}).out)["ids"],
            json({2, 5, 3}));
  EXPECT_EQ(json::parse(run({"encode", "--vocab", vocab_, "--cased", "Unable unable"}).out)["ids"],
            json({2, 10, 9, 8, 9, 3}));
}

TEST_F(TokenizerCommand, NamesFileAndLineOfAMistake) {
  const std::string bad = write("bad.jsonl", "\"hello\"\n{\"text\": 1}\n");
  expect_refused({"encode", "--vocab", vocab_, "--jsonl", bad}, 1,
                 bad + ":2: \"{\\\"text\\\": 1}\" is neither; expected a text, or a list of two");
  expect_refused({"encode", "--vocab", vocab_, "--jsonl", "-"}, 1,
                 "stdin:1: \"hello\": is not JSON at byte 1", "hello\n");
  expect_refused({"encode", "--vocab", vocab_}, 1, "stdin:2: the text is not UTF-8: byte 1",
                 "hello\na\xFF\n");
  expect_refused({"decode", "--vocab", vocab_}, 1, "stdin:1: \"x\" is no id", "5 x\n");
  expect_refused({"decode", "--vocab", vocab_}, 1, "stdin:1: \"-1\" is no id", "[5, -1]\n");
  expect_refused({"decode", "--vocab", vocab_, "11"}, 1, "id 11 is not in the vocabulary");
  expect_refused({"encode", "--vocab", vocab_, "--jsonl", "no.jsonl"}, 1,
                 "no.jsonl: cannot be opened");
  expect_refused({"encode", "--vocab", vocab_, "--jsonl", "-", "x"}, 2, "both --jsonl and a text");
  expect_refused({"encode", "x"}, 2, "no vocabulary given; expected --vocab");
  expect_refused({"guess"}, 2, "guess");
  expect_refused({"train", "--out", "x"}, 2, "expected --input");
  expect_refused({"train", "--input", "no.txt", "--out", "x"}, 1, "no.txt: No such file");
  // Said before the text is read, which is wrong too.
  const std::string text = write("bad.txt", "a\xFF\n"), out = (folder_ / "no/vocab.txt").string();
  expect_refused({"train", "--input", text, "--out", out}, 1, out + ": cannot be created");
}

TEST_F(TokenizerCommand, DecodesArgumentsLinesAndJson) {
  EXPECT_EQ(run({"decode", "--vocab", vocab_, "5", "7", "6"}).out, "hello, world\n");
  EXPECT_EQ(run({"decode", "--vocab", vocab_}, "[2, 8, 9, 3]\n5,6\n\n").out,
            "unable\nhello world\n\n");
  EXPECT_EQ(run({"decode", "--vocab", vocab_, "--keep-special", "2 5 3"}).out,
            "[CLS] hello [SEP]\n");
  // The output of encode.
  const std::string encoded = write("ids.jsonl", std::string(kHelloWorld) + kHelloWorld);
  EXPECT_EQ(run({"decode", "--vocab", vocab_, "--jsonl", encoded}).out,
            "hello, world\nhello, world\n");
  expect_refused({"decode", "--vocab", vocab_}, 1, "has no list \"ids\"", "{\"id\": [5]}\n");
}

TEST_F(TokenizerCommand, InspectsATokenizerAndAText) {
  const Result result = run({"inspect", "--vocab", vocab_, "unable"});
  EXPECT_EQ(result.status, 0) << result.err;
  for (const char* part :
       {"tokens         11\n", "words        5 (45.5 %)\n", "pieces       1 (9.1 %), prefix \"##\"",
        "[PAD] 0, [UNK] 1, [CLS] 2, [SEP] 3, [MASK] 4\n", "lower case     yes\n", "fingerprint    ",
        "         8       0-2  un\n", "         9       2-6  ##able\n"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
}

TEST_F(TokenizerCommand, MeasuresATokenizerOnAFile) {
  const std::string text = write("text.txt", "hello, world\nunable mystery\n");
  const Result result = run({"inspect", "--vocab", vocab_, "--input", text});
  EXPECT_EQ(result.status, 0) << result.err;
  // 13 + 15 bytes; hello , world un ##able [UNK]
  for (const char* part : {"text.txt\n", "lines        2\n", "tokens       6, 4.67 bytes each\n",
                           "unknown      16.667 %\n", " MB/s in one thread\n"})
    EXPECT_NE(result.out.find(part), std::string::npos) << part << "\n" << result.out;
  expect_refused({"inspect", "--vocab", vocab_, "--input", write("bad.txt", "ok\n\xFF\n")}, 1,
                 "bad.txt:2: the text is not UTF-8: byte 0");
}

TEST_F(TokenizerCommand, LearnsAVocabularyThatItCanUse) {
  const std::string text = write("text.txt", "hug hug hug\npug pug pun\n");
  const std::string out = (folder_ / "learned.txt").string();
  const Result result = run({"train", "--input", text, "--out", out});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, "wrote " + out + ": 16 tokens from 3 different words\n");
  const std::string learned = read_file(out);
  EXPECT_EQ(learned,
            "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ng\nh\nn\np\nu\n##g\n##n\n##u\n##ug\nhug\npug\n");
  EXPECT_EQ(json::parse(run({"encode", "--vocab", out, "Hug puns"}).out)["ids"],
            json({2, 14, 1, 3}));
  const std::string saved = (folder_ / "learned.json").string();
  EXPECT_EQ(run({"train", "--input", text, "--out", saved, "--no-lowercase"}).status, 0);
  EXPECT_EQ(json::parse(read_file(saved))["normalizer"]["lowercase"], false);
  expect_refused({"train", "--input", write("bad.txt", "ok\n\xFF\n"), "--out", out}, 1,
                 "bad.txt:2: the text is not UTF-8: byte 0");
  expect_refused({"train", "--input", write("empty.txt", "\n"), "--out", out}, 1, "no words in it");
  EXPECT_EQ(read_file(out), learned);  // a failed run leaves the old file
}

}  // namespace
}  // namespace hydramix
