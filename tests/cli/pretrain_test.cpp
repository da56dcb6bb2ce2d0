// SPDX-License-Identifier: Apache-2.0
// hydramix pretrain as a process: killed, starved of disk, run by several ranks; and evaluate of
// what it leaves.
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "support/in_process.h"
#include "support/ports.h"

namespace hydramix {
namespace {

using test::contains;
using test::run;
using test::run_here;
using test::TemporaryFolder;

// Takes about a second, and writes a checkpoint after every step.
const std::string kTiny =
    "pretrain --device cpu --model.vocab 300 --model.layers 2 --model.block.d-model 32 "
    "--model.block.headdim 16 --model.block.mixer-options.d-state 8 --model.dropout 0.1 "
    "--data.evaluation-documents 20 --data.language-documents 50 --train.steps 24 --train.batch 8 "
    "--train.micro-batch 3 --train.log-every 1 --train.evaluate-every 7 --train.checkpoint-every 1 "
    "--train.optimizer.ema 0.9 --train.optimizer.rate 1e-3 ";

std::string tiny(const std::filesystem::path& out) { return kTiny + "--out " + out.string(); }

// Starts the command without waiting for it.
pid_t start(const std::string& arguments, const std::string& environment,
            const std::filesystem::path& log) {
  const std::string command = "exec env " + environment + " " + HYDRAMIX_COMMAND + " " + arguments +
                              " >" + log.string() + " 2>&1";
  const pid_t child = fork();
  if (child == 0) {
    signal(SIGHUP, SIG_DFL);  // the tests may run under nohup
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  return child;
}

// The exit code, or minus the signal that ended it.
int wait_for(pid_t child) {
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

std::string weights(const std::filesystem::path& out) {
  return read_file(out / "model/model.safetensors");
}

std::vector<nlohmann::json> metrics(const std::filesystem::path& out) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(read_file(out / "metrics.jsonl"));
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// An uninterrupted run, made once. All others must arrive at the same result.
struct Reference {
  TemporaryFolder folder;
  std::filesystem::path out = folder / "run";
  Reference() {
    const auto r = run(tiny(out));
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_TRUE(contains(r.out, "depends on")) << r.out;
    EXPECT_TRUE(contains(r.out, "expected ceiling")) << r.out;
  }
};
const Reference& reference() {
  static const Reference made;
  return made;
}

// Sends a signal to the run that the command starts, at a point in the life of one of its files
// (base/atomic_file.cpp), and returns how the process ended.
int signalled(const TemporaryFolder& folder, const std::string& point, int signal) {
  return wait_for(start(tiny(folder / "run"),
                        "HYDRAMIX_SIGNAL_AT=" + point + ":" + std::to_string(signal),
                        folder / "log"));
}

TEST(Pretrain, KilledWhileItWritesItContinuesToTheSameBits) {
  const auto& whole = reference();
  TemporaryFolder folder;
  // In the order in which a run reaches them; each attempt continues the previous one.
  for (const std::string point :
       {"config.json:written", "step-0000000001.safetensors:created",
        "step-0000000001.safetensors:written", "step-0000000005.safetensors:renamed",
        "best.safetensors:written", "step-0000000011.safetensors:written",
        "step-0000000018.safetensors:created", "step-0000000023.safetensors:renamed",
        "model.safetensors:created", "model.safetensors:renamed"})
    ASSERT_EQ(signalled(folder, point, SIGKILL), -SIGKILL) << point << read_file(folder / "log");
  const auto r = run(tiny(folder / "run"));
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(weights(folder / "run") == weights(whole.out));
  const auto lines = metrics(folder / "run"), expected = metrics(whole.out);
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i]["step"], expected[i]["step"]);
    for (const char* key : {"loss", "norm", "evaluation/loss"})
      EXPECT_EQ(lines[i].value(key, 0.0), expected[i].value(key, 0.0)) << key;
  }
}

TEST(Pretrain, ASignalSavesACheckpointAndTheSameCommandResumes) {
  TemporaryFolder folder;
  EXPECT_EQ(signalled(folder, "step-0000000003.safetensors:renamed", SIGHUP), 128 + SIGHUP)
      << read_file(folder / "log");
  const int code = signalled(folder, "step-0000000005.safetensors:renamed", SIGTERM);
  EXPECT_EQ(code, 128 + SIGTERM) << read_file(folder / "log");
  EXPECT_TRUE(contains(read_file(folder / "log"), "The same command continues."));
  const auto r = run(tiny(folder / "run"));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(weights(folder / "run") == weights(reference().out));
}

TEST(Pretrain, SkipsAndReportsADamagedCheckpoint) {
  TemporaryFolder folder;
  const auto out = folder / "run";
  std::filesystem::copy(reference().out, out, std::filesystem::copy_options::recursive);
  std::filesystem::remove(out / "model/model.safetensors");
  const auto newest = out / "checkpoints/step-0000000024.safetensors";
  auto bytes = read_file(newest);
  bytes[bytes.size() - 100] = static_cast<char>(bytes[bytes.size() - 100] ^ 1);
  std::ofstream(newest, std::ios::binary) << bytes;
  const auto r = run(tiny(out));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.err, "step-0000000024.safetensors: tensor ")) << r.err;
  EXPECT_TRUE(contains(r.err, ": the checksum of its ")) << r.err;
  EXPECT_TRUE(contains(r.err, "continuing after step 23")) << r.err;
  EXPECT_TRUE(weights(out) == weights(reference().out));
}

TEST(Pretrain, AFullDiskStopsItAndLosesNothing) {
  TemporaryFolder folder;
  const auto out = folder / "run";
  std::filesystem::copy(reference().out, out, std::filesystem::copy_options::recursive);
  // Removes the newest checkpoints.
  std::filesystem::remove(out / "checkpoints/step-0000000024.safetensors");
  std::filesystem::remove(out / "checkpoints/step-0000000023.safetensors");
  const auto left = read_file(out / "checkpoints/step-0000000022.safetensors");
  const auto r = run(tiny(out), "trap '' XFSZ; ulimit -f 40;");  // files of 20 or 40 kB, no more
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.err, "File too large")) << r.err;
  EXPECT_TRUE(left == read_file(out / "checkpoints/step-0000000022.safetensors"));
  EXPECT_EQ(run(tiny(out)).code, 0);
  EXPECT_TRUE(weights(out) == weights(reference().out));
}

TEST(Pretrain, TwoRanksLearnTheSameAsOne) {
  TemporaryFolder folder;
  const auto out = folder / "run";
  const auto environment = [port = test::free_port()](int rank) {
    return "RANK=" + std::to_string(rank) + " LOCAL_RANK=" + std::to_string(rank) +
           " WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=" +
           std::to_string(port);
  };
  const std::string arguments = tiny(out) + " --train.timeout 60";
  const pid_t second = start(arguments, environment(1), folder / "log1");
  const pid_t first = start(arguments, environment(0), folder / "log0");
  const int first_code = wait_for(first), second_code = wait_for(second);
  if (contains(read_file(folder / "log0"), "need Gloo, whose headers were missing"))
    GTEST_SKIP() << "built without Gloo's headers: no ranks on the CPU";
  EXPECT_EQ(first_code, 0) << read_file(folder / "log0");
  EXPECT_EQ(second_code, 0) << read_file(folder / "log1");
  const auto lines = metrics(out), expected = metrics(reference().out);
  ASSERT_EQ(lines.size(), expected.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    const char* key = lines[i].contains("loss") ? "loss" : "evaluation/loss";
    // Rounding of float32 sums, over 24 steps.
    EXPECT_NEAR(lines[i][key].get<double>(), expected[i][key].get<double>(), 1e-4) << i;
  }
  // One rank continues the run of two.
  std::filesystem::remove(out / "checkpoints/step-0000000024.safetensors");
  std::filesystem::remove(out / "checkpoints/step-0000000023.safetensors");
  const auto r = run(tiny(out));
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(contains(r.err, "continuing after step 22")) << r.err;
}

TEST(Pretrain, RejectsImpossibleRequestsBeforeAnyWork) {
  TemporaryFolder folder;
  const auto out = (folder / "run").string();
  struct Case {
    std::string arguments, environment;
    int code;
    std::string message;
  };
  std::ofstream(folder / "vocab.txt") << "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n";
  std::ofstream(folder / "recipe.yaml") << "model:\n  layer: 3\n";
  const std::string vocab = (folder / "vocab.txt").string();
  for (const auto& [arguments, environment, code, message] : std::vector<Case>{
           {"--model.vocab 100", "", 2, "model.vocab: 100 is less than the tokenizer's"},
           {"--model.block.headdim 24", "", 2, "headdim"},
           {"--model.positions 64", "", 2,
            "data.sequences.max_length: 128 is more than model.positions, which is 64"},
           {"--model.block.mixer dense --model.block.mixer-options.max-length 32", "", 2,
            "is more than model.block.mixer_options.max_length, which is 32"},
           {"--train.batch 9",
            "RANK=0 LOCAL_RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=1", 2,
            "train.batch: 9 sequences cannot be divided among 2 ranks"},
           {"--data.train shards --data.validation shards", "", 2,
            "data.vocab: name the vocab.txt"},
           {"--data.train shards", "", 2, "train and validation must both be"},
           {"--data.train " + out + " --data.validation " + out + " --data.vocab " + vocab, "", 1,
            "[MASK]"},
           {"--precision bfloat16", "", 2, "precision: bfloat16 is for GPUs"},
           {(folder / "recipe.yaml").string(), "", 2, "recipe.yaml"},
           {"--out " + vocab + "/run", "", 1, "vocab.txt/run"}}) {
    const auto command = tiny(out) + " " + arguments;
    const auto r = environment.empty() ? run_here(command) : run(command, environment);
    EXPECT_EQ(r.code, code) << arguments << "\n" << r.err;
    EXPECT_TRUE(contains(r.err, message)) << arguments << "\n" << r.err;
    EXPECT_FALSE(std::filesystem::exists(folder / "run")) << arguments;
  }
}

TEST(Pretrain, WithoutArgumentsShowsItsUsage) {
  TemporaryFolder folder;
  const auto r = run_here("pretrain");
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_TRUE(contains(r.err, "usage: hydramix pretrain [options] [RECIPE]")) << r.err;
  EXPECT_TRUE(contains(r.err, "hydramix pretrain recipes/tiny.yaml")) << r.err;
}

TEST(Pretrain, ALongStepShowsThatItHasBegun) {
  TemporaryFolder folder;
  // One step of more sequences than a minute allows. It is stopped when the line is there.
  const pid_t child =
      start(tiny(folder / "run") + " --train.steps 1 --train.batch 1000000", "", folder / "log");
  const auto shown = [&] {  // the log grows meanwhile
    std::ostringstream log;
    log << std::ifstream(folder / "log").rdbuf();
    return contains(log.str(), "0/1 steps  sequence ");
  };
  for (int tenths = 0; tenths < 600 && !shown(); ++tenths)
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  kill(child, SIGINT);
  EXPECT_EQ(wait_for(child), 128 + SIGINT);
  EXPECT_TRUE(shown()) << read_file(folder / "log");
  EXPECT_TRUE(contains(read_file(folder / "log"), "building hydra: ")) << read_file(folder / "log");
}

TEST(Pretrain, ARunWithOtherOptionsIsNotWrittenOver) {
  TemporaryFolder folder;
  const auto out = folder / "run";
  std::filesystem::copy(reference().out, out, std::filesystem::copy_options::recursive);
  const auto before = read_file(out / "config.json");
  const auto r = run_here(tiny(out) + " --train.optimizer.rate 2e-3");
  EXPECT_EQ(r.code, 2);
  EXPECT_TRUE(contains(r.err, "train.optimizer.rate was 0.001, is 0.002")) << r.err;
  EXPECT_EQ(before, read_file(out / "config.json"));
}

TEST(Trained, CanBeEvaluatedByAnyOfItsWeights) {
  const auto out = reference().out.string();
  for (const std::string which : {"last", "best", "average"}) {
    const auto r = run_here("evaluate " + out + " --documents 10 --json --which " + which);
    ASSERT_EQ(r.code, 0) << r.err;
    EXPECT_GT(nlohmann::json::parse(r.out)["loss"].get<double>(), 0);
  }
  // The folder of the run and its model are the same.
  const std::string how =
      " --data language --documents 10 --mask 0.15 --max-length 128 --micro-batch 32";
  const auto model = run_here("evaluate " + out + "/model" + how);
  EXPECT_EQ(model.code, 0) << model.err;
  EXPECT_EQ(run_here("evaluate " + out + how).out, model.out);
}

}  // namespace
}  // namespace hydramix
