// SPDX-License-Identifier: Apache-2.0
// The commands answer files that cannot be read, change, lie about their size or are no files with
// a message and an exit code, never with a part of the result. The test named torture covers the
// failing disk at random; here every read of one command fails.
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/atomic_file.h"
#include "support/tiny_run.h"
#ifdef HYDRAMIX_PRELOAD
#include "torture/server.h"
#endif

namespace hydramix {
namespace {

using test::contains;
using test::run_here;
using test::TemporaryFolder;

const std::string kVocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\nword\nmeets\nanother\n";

// The exit code must be 1 or 2, with a message that has `part`.
void expect_refused(const std::string& arguments, const std::string& part) {
  const auto r = run_here(arguments);
  EXPECT_TRUE(r.code == 1 || r.code == 2) << arguments << ": " << r.code << " " << r.err;
  EXPECT_TRUE(contains(r.err, "error: ") && contains(r.err, part)) << arguments << ": " << r.err;
}

#ifdef HYDRAMIX_PRELOAD
// The command as a process in which an operation on files of a folder fails (torture/preload.c).
class FailingCommand {
 public:
  explicit FailingCommand(const TemporaryFolder& files) : files_(files) {}

  // `fault` is "read:3:eio"; empty: none.
  torture::Ended run(const std::vector<std::string>& arguments, const std::string& fault = "") {
    torture::Request request{.folder = work_.path(), .arguments = arguments};
    if (!fault.empty())
      request.environment = {"HYDRAMIX_FAULT_UNDER=" + files_.path().string(),
                             "HYDRAMIX_FAULT=" + fault};
    auto ended = server_.run(request);
    EXPECT_EQ(ended.signal, 0) << fault << ": " << ended.err;
    return ended;
  }

 private:
  const TemporaryFolder& files_;
  TemporaryFolder work_;
  torture::Server server_{HYDRAMIX_COMMAND, HYDRAMIX_PRELOAD};
};

TEST(Reading, EveryFailingReadIsAnErrorAndShortReadsAreNot) {
  const TemporaryFolder folder;
  FailingCommand command(folder);
  write_file(folder / "vocab.txt", kVocabulary);
  std::string lines;  // several buffers of the reader
  for (int i = 0; i < 30'000; ++i) lines += "\"the word meets another\"\n";
  write_file(folder / "lines.jsonl", lines);
  const std::vector<std::string> encode{"tokenizer", "encode",
                                        "--vocab",   (folder / "vocab.txt").string(),
                                        "--jsonl",   (folder / "lines.jsonl").string()};
  const auto whole = command.run(encode);
  ASSERT_EQ(whole.code, 0) << whole.err;
  int failed = 0;
  for (int n = 1; n <= 20; ++n) {
    const auto r = command.run(encode, "read:" + std::to_string(n) + ":eio");
    if (r.code == 0) {
      EXPECT_EQ(r.out, whole.out) << "read " << n;
      break;
    }
    ++failed;
    EXPECT_EQ(r.code, 1);
    EXPECT_TRUE(contains(r.err, "Input/output error")) << r.err;
  }
  EXPECT_GE(failed, 8) << "two files, several reads of each";
  for (const char* action : {"short", "eintr"}) {
    int survived = 0;
    for (int n = 1; n <= failed; ++n) {
      const auto r = command.run(encode, "read:" + std::to_string(n) + ":" + action);
      // Calls that can be neither short nor interrupted, such as stat, fail.
      if (r.code == 0)
        ++survived;
      else
        EXPECT_TRUE(contains(r.err, "Input/output error")) << r.err;
      EXPECT_TRUE(r.code != 0 || r.out == whole.out) << action << " of operation " << n;
    }
    EXPECT_GE(survived, 4) << action;
  }
}

TEST(Reading, AMappedFileThatIsCutIsNamed) {
  const TemporaryFolder folder;
  const auto file = (folder / "case.safetensors").string();
  std::filesystem::copy(std::string(HYDRAMIX_SOURCE_DIR) + "/tests/golden/hydra_g1_L17.safetensors",
                        file);
  const auto r = FailingCommand(folder).run({"check", file}, "map:1:cut");
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, file + ": a part of it can no longer be read")) << r.err;
}
#endif

TEST(Reading, DeepJsonIsRefusedWhereverItIsRead) {
  const TemporaryFolder folder;
  const std::string deep(100'000, '[');
  write_file(folder / "vocab.txt", kVocabulary);
  write_file(folder / "lines.jsonl", deep + "\n");
  expect_refused("tokenizer encode --vocab " + (folder / "vocab.txt").string() + " --jsonl " +
                     (folder / "lines.jsonl").string(),
                 "nested deeper than");
  write_file(folder / "tokenizer.json", "{\"model\":" + deep);
  expect_refused("tokenizer inspect --vocab " + (folder / "tokenizer.json").string(),
                 "nested deeper than");
  write_file(folder / "config.json", "{\"format\":" + deep);
  expect_refused("fill-mask --model " + folder.path().string() + " [MASK]", "nested deeper than");
  write_file(folder / "index.json", deep);
  expect_refused("tokenize --verify " + folder.path().string(), "nested deeper than");
  write_file(folder / "data.json", "{\"a\":" + deep);
  write_file(folder / "config.json", "{\"train\": {}, \"model\": {}, \"data\": {}}");
  expect_refused("evaluate " + folder.path().string(), "data.json: holds no fingerprints");
}

TEST(Reading, PipesAndDevicesAreRefusedWhereAFileIsReadWhole) {
  const TemporaryFolder folder;
  const auto pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  for (const std::string& path : {pipe, std::string("/dev/zero")}) {
    expect_refused("pretrain " + path, "is a pipe or a device");
    expect_refused("tokenizer inspect --vocab " + path, "is a pipe or a device");
    expect_refused("tokenize " + path + " --vocab x --out " + (folder / "out").string(),
                   "is a pipe or a device");
    expect_refused("check " + path, "is a pipe or a device");
  }
}

TEST(Reading, LineOrientedTextMayComeFromAPipe) {
  const TemporaryFolder folder;
  write_file(folder / "vocab.txt", kVocabulary);
  write_file(folder / "lines.jsonl", "\"the word\"\n");
  const auto pipe = (folder / "pipe").string();
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const std::string encode = "tokenizer encode --vocab " + (folder / "vocab.txt").string();
  const auto from_file = run_here(encode + " --jsonl " + (folder / "lines.jsonl").string());
  ASSERT_EQ(from_file.code, 0) << from_file.err;
  const auto from_pipe =
      test::run(encode + " --jsonl " + pipe,
                "cat " + (folder / "lines.jsonl").string() + " > " + pipe + " & env");
  EXPECT_EQ(from_pipe.code, 0) << from_pipe.err;
  EXPECT_EQ(from_pipe.out, from_file.out);
  expect_refused(encode + " --jsonl /dev/zero", "/dev/zero: is a device");  // it never ends
}

TEST(Reading, AnInputIsNeverTheOutput) {
  const TemporaryFolder folder;
  const auto text = (folder / "a.txt").string(), same = (folder / "same.txt").string();
  write_file(text, "the word meets the word\n");
  std::filesystem::create_hard_link(text, same);
  for (const auto& out : {text, same, (folder / "." / "a.txt").string()}) {
    expect_refused("tokenizer train --input " + text + " --out " + out, "is the input");
    EXPECT_EQ(read_file(text), "the word meets the word\n");
  }
  const std::string golden =
      std::string(HYDRAMIX_SOURCE_DIR) + "/tests/golden/hydra_g1_L17.safetensors";
  const auto weights = (folder / "w.safetensors").string();
  std::filesystem::copy(golden, weights);
  expect_refused("convert " + weights + " " + weights + " --dtype bfloat16", "is the input");
  expect_refused("check " + weights + " --write " + weights, "is the input");
  EXPECT_EQ(read_file(weights), read_file(golden));
  std::filesystem::create_directory(folder / "run");
  const auto metrics = (folder / "run/metrics.jsonl").string();
  write_file(metrics, "{\"step\":1,\"loss\":1.0}\n");
  expect_refused("curves " + (folder / "run").string() + " --metric loss --out " + metrics,
                 "is the input");
}

TEST(Reading, MemoryIsTakenAfterSizesAreChecked) {
  const TemporaryFolder folder;
  std::ofstream(folder / "vocab.txt").flush();
  std::filesystem::resize_file(folder / "vocab.txt", uintmax_t{1} << 40);
  expect_refused("tokenizer inspect --vocab " + (folder / "vocab.txt").string(),
                 "a tokenizer has at most");
  write_file(folder / "vocab.txt", kVocabulary);
  write_file(folder / "line.txt", std::string(17 << 20, 'x'));
  expect_refused("tokenizer inspect --vocab " + (folder / "vocab.txt").string() + " --input " +
                     (folder / "line.txt").string(),
                 "line.txt:1: the line is longer than");
}

TEST(Reading, WithoutAMaskedTokenThereIsNothingToLearn) {
  expect_refused("pretrain --set data.sequences.mask=0", "data.sequences.mask");
}

// The result of older weights would be another.
TEST(Reading, ADamagedNewestCheckpointIsNotReplacedByAnOlderOne) {
  const TemporaryFolder folder;
  const auto checkpoints = folder / "run" / "checkpoints";
  test::make_language_run(folder / "run", "--train.keep 2");
  const auto newest = checkpoints / "step-0000000004.safetensors";
  ASSERT_TRUE(std::filesystem::exists(checkpoints / "step-0000000002.safetensors"));
  const std::string embed = "embed --text word --model " + (folder / "run").string();
  EXPECT_EQ(run_here(embed).code, 0);
  std::filesystem::remove(newest);  // it may share its bytes with best.safetensors
  write_file(newest, "damaged");
  expect_refused(embed, newest.string());
  expect_refused(embed, "Move the file away to use the checkpoint before it.");
  EXPECT_EQ(run_here(embed + " --which best").code, 0);
  std::filesystem::remove(newest);
  EXPECT_EQ(run_here(embed).code, 0);
}

}  // namespace
}  // namespace hydramix
