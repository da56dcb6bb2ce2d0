// SPDX-License-Identifier: Apache-2.0
#include "bench/gpu_cores.h"

#include "bench/gpu_verify.h"
#include "ops/gated_scan.h"
#include "ops/scan.h"
#include "ops/selective_scan.h"

namespace hydramix::bench {
namespace {

using torch::Tensor;

constexpr int64_t kChannels = 1536, kStates = 16;  // of s6
constexpr int64_t kHeads = 24, kWidth = 64;        // of gla and retnet

Tensor random_float(const std::vector<int64_t>& shape) {
  return torch::randn(shape, on_gpu(torch::kFloat32));
}

// log(1 - 2^(-5 - h)): the decays of RetNet.
Tensor retention_decay(const torch::TensorOptions& options) {
  return torch::log1p(-torch::exp2(-5 - torch::arange(kHeads, options)));
}

}  // namespace

std::vector<std::string> core_names() { return {"s6", "gla", "retnet"}; }

CoreCase::CoreCase(std::string core, const Sequences& where)
    : name(std::move(core)), sequences(where) {
  const int64_t n = sequences.tokens();
  if (name == "s6") {
    // x, dt, A, b, c, D, bias
    leaves = {random_bf16({n, kChannels}),
              random_bf16({n, kChannels}),
              -random_float({kChannels, kStates}).exp(),
              random_bf16({n, kStates}),
              random_bf16({n, kStates}),
              random_float({kChannels}),
              random_float({kChannels}) - 4};
  } else {
    for (int i = 0; i < 3; ++i) leaves.push_back(random_bf16({n, kHeads, kWidth}));  // x, q, k
    if (name == "gla") leaves.push_back(torch::log_sigmoid(random_float({n, kHeads, kWidth})) / 16);
  }
  for (auto& t : leaves) t.requires_grad_();
}

CoreCase CoreCase::reference() const {
  CoreCase exact = *this;
  for (auto& t : exact.leaves) t = t.detach().to(torch::kCPU).to(torch::kFloat64).requires_grad_();
  return exact;
}

Tensor CoreCase::run() const {
  const auto& t = leaves;
  if (name == "s6")
    return selective_scan(t[0], {t[1], t[2], t[3], t[4], t[5], t[6]}, sequences, /*tile=*/64);
  if (name == "gla") return gated_scan(t[0], {t[1], t[2], t[3]}, sequences, /*tile=*/64);
  const bool exact = t[0].scalar_type() == torch::kFloat64;
  const auto options = t[0].options().dtype(exact ? torch::kFloat64 : torch::kFloat32);
  const auto zero = torch::zeros({kHeads}, options.requires_grad(false));
  // The limits of dt make every step 1.
  const ScanDirection forward{zero.expand({t[0].size(0), kHeads}), t[2], t[1]};
  return packed_scan(t[0], forward, {}, zero, retention_decay(zero.options()), zero, sequences,
                     {.shift = 0, .tile = 64, .dt_low = 1, .dt_high = 1});
}

}  // namespace hydramix::bench
