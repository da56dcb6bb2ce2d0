// SPDX-License-Identifier: Apache-2.0
// When buckets are sent, and in which order, as seen by a communicator that only records them.
// communicator_test.cpp tests the sums themselves with real ranks.
#include "dist/gradient_reducer.h"

#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix {
namespace {

class Recorder : public Communicator {
 public:
  struct Sent {
    int64_t begin, size;  // in the flat gradient
    bool operator==(const Sent&) const = default;
  };
  explicit Recorder(const torch::Tensor& flat) : flat_(flat) {}
  int64_t rank() const override { return 0; }
  int64_t size() const override { return 2; }
  int64_t local_rank() const override { return 0; }
  void sum(torch::Tensor&) override {}
  void begin_sum(torch::Tensor t) override {
    sent.push_back({t.storage_offset() - flat_.storage_offset(), t.numel()});
    contents.push_back(t.clone());
  }
  void finish() override { ++finished; }
  void broadcast(torch::Tensor&, int64_t) override {}
  void barrier(const std::string&) override {}
  void agree(const std::string&, const std::string&) override {}
  void leave() override {}
  void abort(const std::string&) noexcept override {}

  std::vector<Sent> sent;
  std::vector<torch::Tensor> contents;  // as they were when they were sent
  int finished = 0;

 private:
  torch::Tensor flat_;
};

// Four parameters of 10, 20, 30 and 40 floats.
struct Model {
  std::vector<torch::Tensor> params;
  torch::Tensor flat = torch::zeros({100});
  Recorder comm{flat};

  Model() {
    int64_t offset = 0;
    for (const int64_t n : {10, 20, 30, 40}) {
      params.push_back(torch::ones({n}).requires_grad_());
      params.back().mutable_grad() = flat.narrow(0, offset, n);
      offset += n;
    }
  }
  // A chain through the parameters in this order: backward reaches the last first.
  torch::Tensor loss(const std::vector<int>& order) const {
    auto x = torch::ones({1}).requires_grad_();
    auto y = x * 1;
    for (const int i : order) y = torch::sin(y * params[i].mean());
    return y.sum();
  }
};

using Sent = Recorder::Sent;

TEST(GradientReducer, CutsBucketsFromTheEnd) {
  Model s;
  GradientReducer reducer(s.comm, s.params, s.flat, 160);  // bytes: 40 floats
  reducer.arm();
  s.loss({0, 1, 2, 3}).backward();
  EXPECT_EQ(s.comm.sent, (std::vector<Sent>{{60, 40}, {10, 50}, {0, 10}}))
      << "all were sent during backward";
  EXPECT_EQ(s.comm.finished, 0);
  reducer.finish();
  EXPECT_EQ(s.comm.sent.size(), 3u);
  EXPECT_EQ(s.comm.finished, 1);
  for (std::size_t i = 0; i < 3; ++i) {
    const auto [begin, size] = s.comm.sent[i];
    EXPECT_TRUE(s.comm.contents[i].equal(s.flat.narrow(0, begin, size)))
        << "bucket " << i << " was sent before its gradients were complete";
    EXPECT_TRUE(s.comm.contents[i].ne(0).all().item<bool>());
  }
}

TEST(GradientReducer, SendsInTheSameOrderWhateverOrderBackwardTakes) {
  for (const auto& order : std::vector<std::vector<int>>{{3, 2, 1, 0}, {2, 0, 3, 1}}) {
    Model s;
    GradientReducer reducer(s.comm, s.params, s.flat, 1);
    reducer.arm();
    s.loss(order).backward();
    reducer.finish();
    EXPECT_EQ(s.comm.sent, (std::vector<Sent>{{60, 40}, {30, 30}, {10, 20}, {0, 10}}));
  }
}

TEST(GradientReducer, SendsParametersWithoutGradientAtTheEnd) {
  Model s;
  GradientReducer reducer(s.comm, s.params, s.flat, 1);
  reducer.arm();
  s.loss({0, 1, 3}).backward();
  EXPECT_EQ(s.comm.sent, (std::vector<Sent>{{60, 40}})) << "the second waits for parameter 2";
  reducer.finish();
  EXPECT_EQ(s.comm.sent, (std::vector<Sent>{{60, 40}, {30, 30}, {10, 20}, {0, 10}}));
}

TEST(GradientReducer, SendsNothingBeforeItIsArmedAndEverythingAtEachStep) {
  Model s;
  GradientReducer reducer(s.comm, s.params, s.flat, 1 << 20);
  for (int step = 1; step <= 3; ++step) {
    s.loss({0, 1, 2, 3}).backward();
    EXPECT_EQ(s.comm.sent.size(), step - 1u);
    reducer.arm();
    s.loss({0, 1, 2, 3}).backward();
    reducer.finish();
    EXPECT_EQ(s.comm.sent.size(), step + 0u);
  }
}

TEST(GradientReducer, LeavesNoHooksBehind) {
  Model s;
  {
    GradientReducer reducer(s.comm, s.params, s.flat, 1);
    reducer.arm();
  }
  s.loss({0, 1, 2, 3}).backward();
  EXPECT_TRUE(s.comm.sent.empty());
}

TEST(GradientReducer, RefusesASecondBackwardAfterABucketWasSent) {
  Model s;
  GradientReducer reducer(s.comm, s.params, s.flat, 1);
  reducer.arm();
  s.loss({0, 1, 2, 3}).backward();
  EXPECT_THROW_WITH(s.loss({0, 1, 2, 3}).backward(), Error, "second gradient");
}

TEST(GradientReducer, RefusesGradientsThatAreNoViews) {
  Model s;
  EXPECT_THROW_WITH(GradientReducer(s.comm, s.params, s.flat, 0), Error, "0 bytes");
  EXPECT_THROW_WITH(GradientReducer(s.comm, s.params, torch::zeros({99}), 1), Error,
                    "of the flat gradient of 99 numbers");
  EXPECT_THROW_WITH(GradientReducer(s.comm, s.params, torch::zeros({10, 10}), 1), Error, "(n)");
  GradientReducer reducer(s.comm, s.params, s.flat, 1);
  EXPECT_THROW_WITH(reducer.finish(), Error, "without being armed");
  s.params[2].mutable_grad() = torch::zeros({30});
  EXPECT_THROW_WITH(reducer.arm(), Error, "parameter 2 of shape [30]");
  s.params[2].mutable_grad() = s.flat.narrow(0, 30, 30);
  reducer.arm();
  EXPECT_THROW_WITH(reducer.arm(), Error, "armed twice");
}

}  // namespace
}  // namespace hydramix
