// SPDX-License-Identifier: Apache-2.0
// hydramix serve as a process: its answers equal those of the other commands, and signals drain,
// reload and end it.
#include <nlohmann/json.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <csignal>
#include <fstream>
#include <sstream>
#include <thread>

#include "hydramix/model_folder.h"
#include "hydramix/text_classifier.h"
#include "raw_client.h"
#include "support/classifiers.h"
#include "support/command.h"
#include "support/expect.h"
#include "support/ports.h"

namespace hydramix {
namespace {

using namespace std::chrono_literals;

class ServeProcess : public ::testing::Test {
 protected:
  ServeProcess() : port(test::free_port()) {
    const auto tokenizer = test::small_tokenizer();
    save_model(folder / "words", test::lively_masked_lm(), &tokenizer);
  }
  void start(const std::vector<std::string>& more = {}) {
    std::vector<std::string> words{"serve", (folder / "words").string(), "--port",
                                   std::to_string(port)};
    words.insert(words.end(), more.begin(), more.end());
    start_command(std::move(words));
    wait_for_status("/ready", 200);
  }
  void start_command(std::vector<std::string> words) {
    words.insert(words.begin(), HYDRAMIX_COMMAND);
    process = fork();
    if (process == 0) {
      std::vector<char*> arguments;
      for (auto& word : words) arguments.push_back(word.data());
      arguments.push_back(nullptr);
      if (std::freopen((folder / "err").c_str(), "w", stderr) == nullptr) _exit(3);
      execv(arguments[0], arguments.data());
      _exit(2);
    }
  }
  void wait_for_status(const std::string& path, int status) {
    for (int i = 0; i < 2000; ++i) {
      test::RawClient client(port);
      if (client.connected() && client.get(path).status == status) return;
      std::this_thread::sleep_for(10ms);
    }
    ADD_FAILURE() << path << " does not answer " << status;
  }
  // With so many models that loading takes seconds, and returns while it goes on.
  void start_loading() {
    std::vector<std::string> words{"serve", "--port", std::to_string(port)};
    for (int i = 0; i < 1000; ++i)
      words.push_back("m" + std::to_string(i) + "=" + (folder / "words").string());
    start_command(std::move(words));
    wait_for_status("/ready", 503);
  }
  // 128 + the signal where one ended it.
  int exit_code() {
    int status = 0;
    waitpid(process, &status, 0);
    process = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::string errors() { return read_file(folder / "err", kMetricsFile); }  // it grows
  ~ServeProcess() override {
    if (process <= 0) return;
    kill(process, SIGKILL);
    waitpid(process, nullptr, 0);
  }

  test::TemporaryFolder folder;
  int port;
  pid_t process = 0;
};

TEST_F(ServeProcess, AnswersAsTheCommandDrainsAndEndsWithCode0) {
  start();
  {
    test::RawClient client(port), rebound(port);
    rebound.send("GET /info HTTP/1.1\r\nHost: evil.example\r\n\r\n");
    EXPECT_EQ(rebound.read().status, 403);
    const auto reply = client.post("/embed", R"({"inputs": "w1 w2 w3"})");
    const auto printed = test::run("embed --model " + (folder / "words").string() +
                                   " --normalize --text 'w1 w2 w3'");
    EXPECT_EQ(nlohmann::json::parse(reply.body)[0].get<std::vector<float>>(),
              nlohmann::json::parse(printed.out).get<std::vector<float>>());
    kill(process, SIGHUP);
    for (int i = 0; i < 1000 && !test::contains(errors(), "reloaded words"); ++i)
      std::this_thread::sleep_for(10ms);
    EXPECT_TRUE(test::contains(errors(), "reloaded words"));
    EXPECT_EQ(client.post("/embed", R"({"inputs": "w1"})").status, 200);
    kill(process, SIGTERM);
  }
  EXPECT_EQ(exit_code(), 0);
  const auto log = errors();
  const auto begin = log.find("{\"time\"");
  EXPECT_TRUE(
      nlohmann::json::parse(log.substr(begin, log.find('\n', begin) - begin)).contains("id"));
  EXPECT_TRUE(test::contains(log, "\"path\":\"/embed\",\"status\":200"));
}

TEST_F(ServeProcess, RerankScoresPairsOfStsBAsPredictDoes) {
  const auto at = [&](const char* name) { return (folder / name).string(); };
  const auto run = [](const std::string& words) {
    const auto result = test::run(words, "OMP_NUM_THREADS=1");
    EXPECT_EQ(result.code, 0) << result.err;
  };
  run("make-data glue --train 24 --dev 12 --test 6 --out " + at("glue"));
  run("pretrain --device cpu --model.vocab 300 --model.layers 1 --model.block.d-model 16 "
      "--model.block.headdim 8 --model.block.mixer-options.d-state 4 "
      "--data.evaluation-documents 4 --train.steps 4 --train.batch 4 --out " +
      at("base"));
  run("finetune --device cpu --recipe tiny --epochs 1 --task STS-B --model " + at("base") +
      " --data " + at("glue") + " --out " + at("stsb"));
  start({"stsb=" + at("stsb")});
  test::RawClient client(port);
  const auto classifier = TextClassifier::open(folder / "stsb" / "model");
  // The first sentence of every row, compared with the second sentences of all.
  std::vector<std::string> queries;
  auto texts = nlohmann::json::array();
  std::ifstream rows(folder / "glue" / "STS-B" / "dev.tsv");
  std::string row;
  std::getline(rows, row);  // names of the columns
  while (std::getline(rows, row)) {
    std::vector<std::string> cells;
    std::istringstream columns(row);
    for (std::string cell; std::getline(columns, cell, '\t');) cells.push_back(cell);
    queries.push_back(cells.at(7));
    texts.push_back(cells.at(8));
  }
  ASSERT_EQ(queries.size(), 12U);
  for (const auto& query : queries) {
    const auto reply = client.post(
        "/rerank", nlohmann::json{{"query", query}, {"texts", texts}, {"model", "stsb"}}.dump());
    ASSERT_EQ(reply.status, 200) << reply.body;
    double before = INFINITY;
    const auto ranked = nlohmann::json::parse(reply.body);
    ASSERT_EQ(ranked.size(), texts.size());
    for (const auto& entry : ranked) {
      const auto& text = texts.at(entry["index"].get<std::size_t>());
      EXPECT_EQ(entry["score"].get<double>(),
                classifier.classify({query, text.get<std::string>()}).value);
      EXPECT_LE(entry["score"].get<double>(), before);
      before = entry["score"];
    }
  }
}

TEST_F(ServeProcess, ASecondSignalEndsItAtOnce) {
  start();
  test::RawClient busy(port);
  busy.send("POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: 50\r\n\r\n");
  std::this_thread::sleep_for(100ms);
  kill(process, SIGTERM);
  for (int i = 0; i < 1000 && !test::contains(errors(), "stopping"); ++i)
    std::this_thread::sleep_for(10ms);
  kill(process, SIGTERM);
  EXPECT_EQ(exit_code(), 128 + SIGTERM);
}

TEST_F(ServeProcess, ASignalEndsItWhileModelsAreLoaded) {
  start_loading();
  kill(process, SIGTERM);
  EXPECT_EQ(exit_code(), 0);
  const auto log = errors();
  EXPECT_TRUE(test::contains(log, "stopping")) << log;
  EXPECT_FALSE(test::contains(log, "listening")) << log;
  EXPECT_FALSE(test::contains(log, "error")) << log;
}

TEST_F(ServeProcess, ASecondSignalEndsItWhileAModelIsLoaded) {
  start_loading();
  kill(process, SIGTERM);
  kill(process, SIGINT);  // a second SIGTERM might come before the first is taken
  const int code = exit_code();
  EXPECT_TRUE(code == 128 + SIGTERM || code == 128 + SIGINT) << code;
}

TEST_F(ServeProcess, EndsInTimeWhileABatchIsComputed) {
  start({"--drain-seconds", "0.5", "--max-client-batch-size", "1000000", "--max-request-tokens",
         "16777216", "--max-body", "100000000", "--deadline-seconds", "600"});
  auto texts = nlohmann::json::array();
  for (int i = 0; i < 200'000; ++i) texts.push_back("w1 w2 w3 w4 w5 w6 w7 w8 w9 w1 w2 w3 w4 w5");
  const auto body = nlohmann::json{{"inputs", texts}}.dump();
  test::RawClient busy(port), watcher(port);
  busy.send("POST /embed HTTP/1.1\r\nHost: localhost\r\nContent-Length: " +
            std::to_string(body.size()) + "\r\n\r\n" + body);
  nlohmann::json stats;
  for (int i = 0; i < 2000 && (i == 0 || stats["running"]["requests"] != 1); ++i) {
    std::this_thread::sleep_for(10ms);
    stats = nlohmann::json::parse(watcher.get("/stats").body);
  }
  ASSERT_EQ(stats["running"]["requests"], 1);
  const auto begin = std::chrono::steady_clock::now();
  kill(process, SIGTERM);
  EXPECT_EQ(exit_code(), 1);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 3s);
  EXPECT_TRUE(test::contains(errors(), "not answered within 0.5 s. Give more --drain-seconds."))
      << errors();
}

TEST_F(ServeProcess, SaysWhatItCannotServe) {
  start();
  const auto taken =
      test::run("serve " + (folder / "words").string() + " --port " + std::to_string(port));
  EXPECT_EQ(taken.code, 1);
  EXPECT_TRUE(test::contains(taken.err, "cannot listen on 127.0.0.1:")) << taken.err;
  const auto missing = test::run("serve " + (folder / "none").string() + " --port 0");
  EXPECT_EQ(missing.code, 1);
  EXPECT_TRUE(test::contains(missing.err, "none")) << missing.err;
  EXPECT_EQ(test::run("serve").code, 2);
  EXPECT_EQ(test::run("serve x --host nowhere.example --port 0").code, 2);
}

}  // namespace
}  // namespace hydramix
