// SPDX-License-Identifier: Apache-2.0
#include "serve/batcher.h"

#include <future>
#include <nlohmann/json.hpp>

#include "fake_model.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

using namespace std::chrono_literals;

// A batcher whose computation waits until it is let go, and which notes its batches.
class Batches : public ::testing::Test {
 protected:
  std::shared_ptr<Job> job(int64_t tokens, const std::shared_ptr<ModelFacts>& its_model,
                           WorkKind kind = WorkKind::kVectors) {
    auto made = std::make_shared<Job>();
    Encoding text;
    text.ids.assign(static_cast<std::size_t>(tokens), 5);
    made->work = {its_model, kind, {text}};
    made->deadline = std::chrono::steady_clock::now() + 60s;
    made->done = [this, tokens](Outcome outcome) {
      const std::lock_guard lock(mutex);
      const auto* error = std::get_if<HttpError>(&outcome);
      answers.push_back({tokens, error == nullptr ? 200 : error->status()});
      changed.notify_all();
    };
    return made;
  }
  void wait_for(std::size_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return answers.size() >= count; }));
  }
  void wait_for_start() {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return started > 0; }));
  }
  std::vector<std::vector<WorkResult>> compute(std::span<const Work* const> works) {
    std::vector<int64_t> sizes;
    for (const auto* work : works) sizes.push_back(work->tokens());
    {
      const std::lock_guard lock(mutex);
      batches.push_back(sizes);
      ++started;
      changed.notify_all();
    }
    gate.wait();
    for (const auto size : sizes)
      if (size == 13 || broken) throw Error("a text whose result is not finite");
    return test::fake_compute(works);
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::promise<void> let_go;
  std::shared_future<void> gate = let_go.get_future().share();
  int started = 0;
  std::atomic<bool> broken = false;
  std::vector<std::vector<int64_t>> batches;
  std::vector<std::pair<int64_t, int>> answers;  // tokens and status
  Metrics metrics;
  std::shared_ptr<ModelFacts> model = test::fake_model(), other = test::fake_model();
  Batcher batcher{20, [this](auto works) { return compute(works); }, metrics};
};

using Sizes = std::vector<std::vector<int64_t>>;

TEST_F(Batches, FillInOrderUpToTheLimitOfTokens) {
  batcher.submit(job(2, model));
  wait_for_start();
  for (const int64_t tokens : {8, 9, 7, 3, 30, 4}) batcher.submit(job(tokens, model));
  let_go.set_value();
  wait_for(7);
  // 7 does not fit after 8 and 9, and 3 must not overtake it; 30 is computed alone.
  EXPECT_EQ(batches, (Sizes{{2}, {8, 9}, {7, 3}, {30}, {4}}));
}

TEST_F(Batches, HaveOneModelAndOneKindOfWork) {
  batcher.submit(job(2, model));
  wait_for_start();
  batcher.submit(job(3, model));
  batcher.submit(job(4, other));
  batcher.submit(job(5, model, WorkKind::kTokenVectors));
  batcher.submit(job(6, model));
  let_go.set_value();
  wait_for(5);
  EXPECT_EQ(batches, (Sizes{{2}, {3, 6}, {4}, {5}}));
}

TEST_F(Batches, OfWordsHaveOneNumberOfWords) {
  batcher.submit(job(2, model));
  wait_for_start();
  for (const int64_t tokens : {3, 4, 5}) {
    auto words = job(tokens, model, WorkKind::kWords);
    words->work.top = tokens == 4 ? 1000 : 5;
    batcher.submit(words);
  }
  let_go.set_value();
  wait_for(4);
  EXPECT_EQ(batches, (Sizes{{2}, {3, 5}, {4}}));
}

TEST_F(Batches, AreComputedByAllThreadsAtOnce) {
  Batcher two(
      20, [this](auto works) { return compute(works); }, metrics, /*threads=*/2);
  for (const int64_t tokens : {3, 4}) {
    two.submit(job(tokens, model));
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return std::ssize(batches) == tokens - 2; }));
  }
  const auto running = [&] { return nlohmann::json::parse(metrics.json())["running"].dump(); };
  EXPECT_EQ(running(), R"({"requests":2,"tokens":7})");
  for (const int64_t tokens : {5, 6}) two.submit(job(tokens, model));
  let_go.set_value();
  wait_for(4);
  two.stop();
  EXPECT_EQ(running(), R"({"requests":0,"tokens":0})");
}

TEST_F(Batches, OfASecondThreadAreAtLeastHalfAsLarge) {
  Batcher two(
      20, [this](auto works) { return compute(works); }, metrics, /*threads=*/2);
  const auto wait_for_batches = [&](std::ptrdiff_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, 30s, [&] { return std::ssize(batches) == count; }));
  };
  two.submit(job(16, model));
  wait_for_batches(1);
  for (const int64_t tokens : {3, 4, 2}) two.submit(job(tokens, model));
  wait_for_batches(2);
  two.submit(job(1, model));
  let_go.set_value();
  wait_for(5);
  EXPECT_EQ(batches, (Sizes{{16}, {3, 4, 2}, {1}}));
}

TEST_F(Batches, LeaveOutWhatIsLateOrAbandoned) {
  batcher.submit(job(2, model));
  wait_for_start();
  auto late = job(3, model), abandoned = job(4, model);
  late->deadline = std::chrono::steady_clock::now();
  abandoned->abandoned = true;
  batcher.submit(late);
  batcher.submit(abandoned);
  batcher.submit(job(5, model));
  let_go.set_value();
  wait_for(4);
  EXPECT_EQ(batches, (Sizes{{2}, {5}}));
  std::sort(answers.begin(), answers.end());
  EXPECT_EQ(answers,
            (std::vector<std::pair<int64_t, int>>{{2, 200}, {3, 503}, {4, 503}, {5, 200}}));
}

TEST_F(Batches, AreComputedOneByOneWhereOneRequestFails) {
  batcher.submit(job(2, model));
  wait_for_start();
  batcher.submit(job(3, model));
  batcher.submit(job(13, model));
  batcher.submit(job(4, model));
  let_go.set_value();
  wait_for(4);
  std::sort(answers.begin(), answers.end());
  EXPECT_EQ(answers,
            (std::vector<std::pair<int64_t, int>>{{2, 200}, {3, 200}, {4, 200}, {13, 424}}));
}

TEST_F(Batches, LeaveOutWhatIsLateWhenItsTimeComes) {
  batcher.submit(job(2, model));
  wait_for_start();
  auto late = job(3, model);
  late->deadline = std::chrono::steady_clock::now() + 50ms;
  batcher.submit(job(4, model));
  batcher.submit(late);
  wait_for(1);  // while the first batch is being computed
  EXPECT_EQ(answers, (std::vector<std::pair<int64_t, int>>{{3, 503}}));
  let_go.set_value();
  wait_for(3);
  EXPECT_EQ(batches, (Sizes{{2}, {4}}));
}

// An answer that cannot be given is no failure of the model.
TEST_F(Batches, AreAnsweredOnceWhereAnAnswerFails) {
  auto bad = job(2, model);
  std::atomic<int> calls = 0;
  bad->done = [&](const Outcome&) {
    ++calls;
    throw Error("no memory for the answer");
  };
  let_go.set_value();
  batcher.submit(bad);
  batcher.submit(job(3, model));
  wait_for(1);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(answers, (std::vector<std::pair<int64_t, int>>{{3, 200}}));
  batcher.stop();
  EXPECT_EQ(calls, 1);
}

// A single text that its model cannot compute, sent again and again, does not make a server
// unhealthy.
TEST_F(Batches, TellOfAModelThatAlwaysFails) {
  let_go.set_value();
  const auto compute_one = [&](int64_t tokens) {
    const auto before = answers.size();
    batcher.submit(job(tokens, model));
    wait_for(before + 1);
  };
  for (int i = 0; i < 20; ++i) compute_one(13);
  EXPECT_EQ(batcher.failure(), "");
  compute_one(3);
  broken = true;
  for (int i = 0; i < 7; ++i) compute_one(3);
  EXPECT_EQ(batcher.failure(), "");
  compute_one(3);
  EXPECT_EQ(batcher.failure(),
            "the last 8 computations have failed, the latest with: a text whose result is not "
            "finite");
  broken = false;
  compute_one(3);
  EXPECT_EQ(batcher.failure(), "");
  broken = true;
  for (int i = 0; i < 8; ++i) compute_one(3);
  EXPECT_NE(batcher.failure(), "");
  batcher.forget_failures();
  EXPECT_EQ(batcher.failure(), "");
}

TEST_F(Batches, AreRefusedAfterTheStop) {
  let_go.set_value();
  batcher.submit(job(2, model));
  wait_for(1);
  batcher.stop();
  batcher.submit(job(3, model));
  wait_for(2);
  EXPECT_EQ(answers, (std::vector<std::pair<int64_t, int>>{{2, 200}, {3, 503}}));
  batcher.stop();  // does nothing
}

TEST_F(Batches, TellWhenToComeBack) {
  EXPECT_EQ(batcher.retry_after(), 1);
  let_go.set_value();
}

}  // namespace
}  // namespace hydramix::serve
