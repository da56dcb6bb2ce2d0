// SPDX-License-Identifier: Apache-2.0
// Compares operations and models on a GPU with float64 on the CPU. Without a GPU, or in a library
// without kernels for it, these tests skip.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "ops/backend.h"

namespace hydramix::test {

inline const torch::Device kGpu(torch::kCUDA);

class OnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!has_cuda_kernels()) GTEST_SKIP() << "the library has no GPU kernels";
    if (!torch::cuda::is_available()) GTEST_SKIP() << "no GPU on this machine";
  }
};

// |a - b| / |b| over all values, or |a - b| where b is zero up to rounding; infinite when either is
// not finite.
inline double norm_error(const torch::Tensor& a, const torch::Tensor& b) {
  const auto wide = [](const torch::Tensor& t) {
    return t.detach().to(torch::kCPU).to(torch::kFloat64).flatten();
  };
  const auto x = wide(a), y = wide(b);
  if (!torch::isfinite(x).all().item<bool>() || !torch::isfinite(y).all().item<bool>())
    return std::numeric_limits<double>::infinity();
  const double scale = y.norm().item<double>();
  return (x - y).norm().item<double>() / (scale > 1e-12 ? scale : 1);
}

// With only a few sums of many terms of either sign, the error depends on chance, so tolerances are
// wider.
inline bool is_few(const torch::Tensor& t) { return t.numel() < 64; }

using Function = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

struct Input {
  std::string name;
  torch::Tensor value;  // float64 on the CPU
  bool stored = true;   // stored in the operation's type; else float32, as weights are
};

struct Operation {
  std::vector<Input> inputs;
  Function run;              // the tested function
  Function naive;            // the same with LibTorch in bfloat16, as a bound for the error
  Function exact;            // in float64 on the CPU; empty: run
  bool in_bfloat16 = false;  // also where float32 is stored
};

// Memory layout of inputs with two or more dimensions.
enum class Memory {
  kDense,
  kColumns,     // of a wider tensor, rows aligned to 16 bytes
  kMisaligned,  // one value further
};

// t (n, ...) as columns of a wider tensor that is NaN elsewhere.
inline torch::Tensor placed(const torch::Tensor& t, Memory memory) {
  if (memory == Memory::kDense || t.dim() < 2) return t;
  const auto flat = t.flatten(1);
  const int64_t before = memory == Memory::kColumns ? 16 : 1;
  // Row lengths that are multiples of 16 values, or not.
  const int64_t after = memory == Memory::kColumns ? 31 - (flat.size(1) + 15) % 16 : 2;
  const auto wide =
      torch::full({t.size(0), before + flat.size(1) + after},
                  std::numeric_limits<double>::quiet_NaN(), t.options().requires_grad(false));
  auto columns = wide.narrow(1, before, flat.size(1));
  columns.copy_(flat);
  return columns.unflatten(1, t.sizes().slice(1).vec());
}

// The output, then the gradients of all inputs.
inline std::vector<torch::Tensor> outcome(const Function& f, std::vector<torch::Tensor> inputs,
                                          const torch::Tensor& dy, Memory memory) {
  for (auto& t : inputs) t = placed(t, memory).detach().requires_grad_();
  const auto y = f(inputs);
  auto all = torch::autograd::grad({y}, inputs, {placed(dy.to(y.options()), memory)}, {}, false,
                                   /*allow_unused=*/true);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (!all[i].defined()) all[i] = torch::zeros_like(inputs[i]);
  all.insert(all.begin(), y.detach());
  return all;
}

// Outputs and gradients agree with float64 on the same rounded inputs: in float32 up to rounding,
// in bfloat16 up to twice the error of the naive computation plus half a unit of bfloat16. Equal
// calls give equal bits.
inline void expect_exact(const Operation& op, torch::ScalarType stored, const std::string& what,
                         Memory memory = Memory::kDense) {
  SCOPED_TRACE(what + (stored == torch::kBFloat16 ? ", bfloat16" : ", float32"));
  const bool rounds = stored == torch::kBFloat16 || op.in_bfloat16;
  std::vector<torch::Tensor> wide, narrow;
  for (const auto& input : op.inputs) {
    narrow.push_back(input.value.to(input.stored ? stored : torch::kFloat32));
    wide.push_back(narrow.back().to(torch::kFloat64));
    narrow.back() = narrow.back().to(kGpu);
  }
  const Function& exact_run = op.exact ? op.exact : op.run;
  const auto dy = torch::randn_like(exact_run(wide)).to(stored).to(torch::kFloat64);
  const auto exact = outcome(exact_run, wide, dy, Memory::kDense);
  const auto ours = outcome(op.run, narrow, dy, memory);
  const auto again = outcome(op.run, narrow, dy, memory);
  std::vector<torch::Tensor> naive;
  if (rounds) naive = outcome(op.naive, narrow, dy, Memory::kDense);
  for (std::size_t i = 0; i < exact.size(); ++i) {
    const auto name = i == 0 ? "the output" : "the gradient of " + op.inputs[i - 1].name;
    ASSERT_EQ(ours[i].sizes(), exact[i].sizes()) << name;
    EXPECT_TRUE(torch::equal(ours[i], again[i])) << name << ": another run gave other bits";
    const bool few = i > 0 && !op.inputs[i - 1].stored && is_few(exact[i]);
    const double tolerance =
        rounds ? 2 * norm_error(naive[i], exact[i]) + (few ? 0x1p-5 : 0x1p-9) : (few ? 5e-5 : 5e-6);
    EXPECT_LE(norm_error(ours[i], exact[i]), tolerance) << name << " " << exact[i].sizes();
  }
}

inline torch::Tensor normal(std::vector<int64_t> shape, double deviation = 1) {
  return deviation * torch::randn(shape, torch::kFloat64);
}

inline std::vector<int64_t> offsets_of(const std::vector<int64_t>& lengths) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  return offsets;
}

inline std::string described(const std::vector<int64_t>& numbers) {
  std::string text;
  for (const int64_t n : numbers) text += (text.empty() ? "" : " ") + std::to_string(n);
  return text;
}

inline void expect_exact_in_both(const Operation& op, const std::string& what,
                                 Memory memory = Memory::kDense) {
  for (const auto type : {torch::kBFloat16, torch::kFloat32}) expect_exact(op, type, what, memory);
}

}  // namespace hydramix::test
