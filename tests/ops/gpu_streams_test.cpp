// SPDX-License-Identifier: Apache-2.0
// Results that one stream writes and another reads: rounded weights, tables of sequences, captured
// graphs.
#include <future>
#include <thread>

#include "hydramix/rounded_copy.h"
#include "ops/graph.h"
#include "ops/sequences.h"
#include "support/gpu.h"

#ifdef HYDRAMIX_GPU
#include <c10/cuda/CUDAGuard.h>
#endif

namespace hydramix {
namespace {

using test::kGpu;
using torch::Tensor;

class GpuStreams : public test::OnGpu {
 protected:
  // Runs `write` on one thread and stream, queued after 0.1 s of work, and `read` on another as
  // soon as the write is queued. Returns the result of `read`.
  static Tensor read_after(const std::function<void()>& write,
                           const std::function<Tensor()>& read) {
    std::promise<void> queued, done;
    std::thread writer([&] {
      const OwnStream stream(kGpu);
      auto a = torch::randn({4096, 4096}, kGpu);
      for (int i = 0; i < 40; ++i) a = a.mm(a).div_(100);
      write();
      queued.set_value();
      done.get_future().wait();  // the end of this stream would synchronize the default stream
    });
    queued.get_future().wait();
    Tensor result;
    {
      const OwnStream stream(kGpu);
      result = read().cpu();
    }
    done.set_value();
    writer.join();
    return result;
  }
};

TEST_F(GpuStreams, ARoundedWeightIsReadAfterItsRounding) {
  const auto weight = torch::randn({2048, 2048}, kGpu).requires_grad_();
  const auto expected = weight.detach().to(torch::kBFloat16).cpu();
  const RoundedCopy copy;
  const auto got = read_after([&] { copy.of(weight); }, [&] { return copy.of(weight).clone(); });
  EXPECT_TRUE(torch::equal(got, expected));
  // After a write to the weight, the copy is updated in place.
  const auto again = read_after(
      [&] {
        const torch::NoGradGuard no_grad;
        const_cast<Tensor&>(weight).mul_(3);
        copy.of(weight);
      },
      [&] { return copy.of(weight).clone(); });
  EXPECT_TRUE(torch::equal(again, weight.detach().cpu().to(torch::kBFloat16)));
}

TEST_F(GpuStreams, OtherStreamsCanReadATable) {
  const std::vector<int64_t> offsets{0, 3, 70000, 70001, 200000};
  const Sequences sequences(offsets);
  const auto got = read_after([&] { make_table(sequences, kGpu); },
                              [&] { return sequences.place_of_tokens(kGpu); });
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
    const int64_t length = offsets[s + 1] - offsets[s];
    EXPECT_TRUE(torch::equal(got.narrow(0, offsets[s], length), torch::arange(length))) << s;
  }
}

#ifdef HYDRAMIX_GPU
// Other streams can use results of a stream that no longer exists.
TEST_F(GpuStreams, ResultsOutliveTheirStream) {
  const Sequences sequences({0, 5, 90000});
  const RoundedCopy copy;
  const auto weight = torch::randn({512, 512}, kGpu).requires_grad_();
  cudaStream_t own = nullptr;
  ASSERT_EQ(cudaSuccess, cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking));
  {
    const c10::cuda::CUDAStreamGuard guard(c10::cuda::getStreamFromExternal(own, 0));
    make_table(sequences, kGpu);
    copy.of(weight);
  }
  ASSERT_EQ(cudaSuccess, cudaStreamSynchronize(own));
  ASSERT_EQ(cudaSuccess, cudaStreamDestroy(own));
  const OwnStream stream(kGpu);
  const auto places = sequences.place_of_tokens(kGpu).cpu();
  EXPECT_TRUE(torch::equal(places.narrow(0, 5, 89995), torch::arange(89995)));
  EXPECT_TRUE(torch::equal(copy.of(weight).cpu(), weight.detach().cpu().to(torch::kBFloat16)));
}
#endif

// Each thread captures and replays graphs on its own stream, concurrently with the others.
TEST_F(GpuStreams, ThreadsCaptureConcurrently) {
  const auto work = [](double factor) {
    const OwnStream stream(kGpu);
    const auto x = torch::ones({1000}, kGpu);
    Tensor y = x * factor;
    for (int round = 0; round < 5; ++round) {
      Graph graph([&] { y = (x * factor).cumsum(0); });
      for (int i = 0; i < 20; ++i) graph.replay();
      if (y[999].item<double>() != 1000 * factor) return false;
    }
    return true;
  };
  std::vector<std::future<bool>> threads;
  for (int t = 1; t <= 4; ++t) threads.push_back(std::async(std::launch::async, work, t));
  for (auto& thread : threads) EXPECT_TRUE(thread.get());
}

}  // namespace
}  // namespace hydramix
