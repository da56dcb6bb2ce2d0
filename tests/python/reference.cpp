// SPDX-License-Identifier: Apache-2.0
// The C++ block itself, with which the tests compare the Python package.
//
//   python_reference FILE     writes weights, input, output and gradients of some blocks
//   python_reference --time   measures Hydra's block of the paper's size, forward and backward: on
//                             the CPU in CPU time, which other programs disturb little, on a GPU
//                             in bfloat16 and in elapsed time
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <string>

#include "hydramix/block.h"
#include "hydramix/tensor_file.h"
#include "hydramix/weights.h"

namespace {

using Tensors = std::map<std::string, torch::Tensor>;

// The same sizes as in bits_test.py.
hydramix::BlockOptions options_of(const std::string& mixer) {
  hydramix::BlockOptions options;
  options.mixer = mixer;
  options.d_model = 32;
  options.headdim = 16;
  options.mixer_options = {.qk_dim = 4, .d_state = 8, .max_length = 64};
  return options;
}

void add_case(const std::string& mixer, Tensors& file) {
  hydramix::Block block(options_of(mixer));
  const auto u = torch::randn({3, 40, 32}).requires_grad_();
  auto mask = torch::ones({3, 40}, torch::kBool);
  mask[1].narrow(0, 25, 15).fill_(false);
  const auto y = block->forward(u, hydramix::Layout::padded(mask));
  const auto dy = torch::randn_like(y);
  y.backward(dy);
  for (const auto& [name, weight] : hydramix::named_weights(*block)) {
    file[mixer + "/weight/" + name] = weight.detach();
    file[mixer + "/gradient/" + name] = weight.grad();
  }
  file[mixer + "/u"] = u.detach();
  file[mixer + "/y"] = y.detach();
  file[mixer + "/dy"] = dy;
  file[mixer + "/du"] = u.grad();
  file[mixer + "/mask"] = mask.to(torch::kInt64);
  file[mixer + "/matrix"] = block->materialize(u).detach();
}

constexpr int kStepsOnGpu = 20;  // between two waits

// Seconds of one step.
double time_of_step(hydramix::Block& block, const torch::Tensor& u) {
  if (u.is_cpu()) {
    const std::clock_t start = std::clock();
    block->forward(u).sum().backward();
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  }
  torch::cuda::synchronize();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kStepsOnGpu; ++i) block->forward(u).sum().backward();
  torch::cuda::synchronize();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  return took.count() / kStepsOnGpu;
}

// Reads "DEVICE B L SECONDS" lines and answers each with the time of the fastest step, in seconds.
// The caller alternates with its own measurements, so that both see the same machine.
void time_blocks() {
  hydramix::Block block(hydramix::BlockOptions{});
  char device[8];
  long long batch = 0, length = 0;
  double seconds = 0;
  while (std::scanf("%7s %lld %lld %lf", device, &batch, &length, &seconds) == 4) {
    auto u = torch::randn({batch, length, 768}).to(torch::Device(device));
    if (!u.is_cpu()) u = u.to(torch::kBFloat16);
    block->to(u.device());
    u.requires_grad_();
    double best = 1e9;
    const auto start = std::chrono::steady_clock::now();
    while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
           seconds)
      best = std::min(best, time_of_step(block, u));
    std::printf("%.7f\n", best);
    std::fflush(stdout);
  }
}

}  // namespace

int main(int count, char** arguments) {
  const std::string first = count > 1 ? arguments[1] : "";
  if (first == "--time" && count == 2) {
    time_blocks();
    return 0;
  }
  if (count != 2) {
    std::fprintf(stderr, "usage: python_reference FILE | --time\n");
    return 2;
  }
  torch::manual_seed(7);
  Tensors file;
  for (const char* mixer : {"hydra", "attention", "toeplitz_dd", "quasiseparable_dd", "s6"})
    add_case(mixer, file);
  hydramix::save_tensors(first, file);
}
