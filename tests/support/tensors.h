// SPDX-License-Identifier: Apache-2.0
// Tensor comparisons, random cases of any registered mixer, and a gradient check, which LibTorch's
// C++ front end lacks.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "hydramix/registry.h"

namespace hydramix::test {

// max |a - b| / max |b| (absolute where b is all zero); infinite when either is not finite.
inline double relative_error(const torch::Tensor& a, const torch::Tensor& b) {
  if (a.numel() == 0) return 0;
  const auto x = a.to(torch::kFloat64).to(torch::kCPU), y = b.to(torch::kFloat64).to(torch::kCPU);
  if (!torch::isfinite(x).all().item<bool>() || !torch::isfinite(y).all().item<bool>())
    return std::numeric_limits<double>::infinity();
  const double scale = y.abs().max().item<double>();
  return (x - y).abs().max().item<double>() / (scale > 0 ? scale : 1);
}

// Fails with shape, worst index and both values.
inline void expect_close(const torch::Tensor& a, const torch::Tensor& b, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const double error = relative_error(a, b);
  if (error <= tolerance) return;
  const auto x = a.to(torch::kFloat64).flatten(), y = b.to(torch::kFloat64).flatten();
  const auto worst = (x - y).abs().nan_to_num(1e300).argmax().item<int64_t>();
  ADD_FAILURE() << what << ": shape " << a.sizes() << ", relative error " << error << " > "
                << tolerance << ", worst at flat index " << worst << ": " << x[worst].item<double>()
                << " against " << y[worst].item<double>();
}

// Names a parameterised test after its mixer or file.
inline std::string parameter_name(const ::testing::TestParamInfo<std::string>& test) {
  return test.param;
}

struct MixerCase {
  std::shared_ptr<Mixer> mixer;
  torch::Tensor x;       // (B, L, H, P)
  torch::Tensor params;  // (B, L, params_width)
};

struct CaseSizes {
  int64_t B = 2, L = 7;
  Heads heads = {4, 3};
  MixerOptions options = {.qk_dim = 3,
                          .d_state = 5,
                          .groups = 2,
                          .max_length = 256,
                          .tile = 16,
                          .filter_width = 6,
                          .filter_frequency = 1};
};

// Weights far from zero, so that every term of a formula matters.
inline MixerCase random_case(const std::string& name, const CaseSizes& sizes,
                             torch::ScalarType dtype, uint64_t seed) {
  torch::manual_seed(seed);
  MixerCase c{make_mixer(name, sizes.heads, sizes.options), {}, {}};
  c.mixer->to(torch::kFloat64);
  {
    torch::NoGradGuard no_grad;
    for (auto& p : c.mixer->parameters()) p.add_(0.3 * torch::randn_like(p));
  }
  const auto options = torch::TensorOptions(torch::kFloat64);
  c.x = torch::randn({sizes.B, sizes.L, sizes.heads.H, sizes.heads.P}, options).to(dtype);
  c.params = torch::randn({sizes.B, sizes.L, c.mixer->params_width()}, options).to(dtype);
  c.mixer->to(dtype == torch::kBFloat16 ? torch::kFloat32 : dtype);
  return c;
}

// The step of central differences. Vandermonde's angles make derivatives so large, up to
// (2 pi L)^5, that rounding matters less than curvature.
constexpr double kDifferenceStep = 5e-5;

// Central differences (fourth order) of the scalar f against autograd, along random directions of
// each input.
inline void expect_gradients(const std::function<torch::Tensor()>& f,
                             const std::vector<std::pair<std::string, torch::Tensor>>& inputs,
                             const std::string& what, double tolerance = 1e-6,
                             double step = kDifferenceStep) {
  for (const auto& [name, input] : inputs) {
    ASSERT_EQ(input.scalar_type(), torch::kFloat64) << what << ": " << name;
    if (input.grad().defined()) input.mutable_grad() = torch::Tensor();
  }
  f().backward();
  for (const auto& [name, input] : inputs) {
    const auto grad = input.grad().defined() ? input.grad().clone() : torch::zeros_like(input);
    torch::NoGradGuard no_grad;
    auto t = input;
    for (int direction = 0; direction < 2; ++direction) {
      const auto d = torch::randn_like(t), original = t.clone();
      const auto moved = [&](double distance) {
        t.copy_(original + distance * d);
        const double value = f().item<double>();
        t.copy_(original);
        return value;
      };
      // Four points: their error is step^4 / 30 times the fifth derivative. For Vandermonde's
      // angles two points would not suffice.
      const double numeric =
          (8 * (moved(step) - moved(-step)) - (moved(2 * step) - moved(-2 * step))) / (12 * step);
      const double analytic = (grad * d).sum().item<double>();
      const double scale = std::max({1.0, std::abs(numeric), std::abs(analytic)});
      EXPECT_NEAR(analytic, numeric, tolerance * scale)
          << what << ": gradient of " << name << " " << t.sizes() << ", direction " << direction;
    }
  }
}

}  // namespace hydramix::test
