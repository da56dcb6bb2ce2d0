// SPDX-License-Identifier: Apache-2.0
// Mixers that apply their matrix without building it, at lengths where they do so: compared with
// the built matrix in float64, with gradients; and float32 compared with float64.
#include "support/equal_gradients.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::expect_close;
using test::MixerCase;
using test::random_case;

struct Family {
  std::string label, mixer;
  int64_t max_length;
};

// A DFT with a period far longer than the sequence uses another algorithm.
const std::vector<Family> kFamilies{
    {"fnet", "fnet", 1600},
    {"gss", "gss", 1600},
    {"s4", "s4", 1600},
    {"s4_beyond_its_length", "s4", 400},
    {"s4d", "s4d", 1600},
    {"s4d_bidirectional", "s4d_bidirectional", 1600},
    {"toeplitz_dd", "toeplitz_dd", 1600},
    {"toeplitz_di", "toeplitz_di", 1600},
    {"vandermonde_dd", "vandermonde_dd", 1600},
    {"vandermonde_dft", "vandermonde_dft", 1601},
    {"vandermonde_dft_of_long_period", "vandermonde_dft", 100003},
    {"vandermonde_di", "vandermonde_di", 1600},
};

class Subquadratic : public ::testing::TestWithParam<Family> {
 protected:
  static MixerCase make(int64_t B, int64_t L, torch::ScalarType type) {
    const MixerOptions options{.qk_dim = 3, .max_length = GetParam().max_length};
    return random_case(GetParam().mixer, {.B = B, .L = L, .heads = {2, 3}, .options = options},
                       type, 23);
  }
};

// 1e-11: sums of 1500 terms round to 1e-13, and 2 pi q j in the matrix to 1e-12 of a turn.
constexpr double kFastTolerance = 1e-11;

TEST_P(Subquadratic, MixEqualsTheMatrix) {
  const auto c = make(1, 1500, torch::kFloat64);
  expect_close(c.mixer->mix(c.x, c.params), dense_apply(c.mixer->materialize(c.params, 1500), c.x),
               kFastTolerance, GetParam().label);
}

TEST_P(Subquadratic, GradientsEqualThoseOfTheMatrix) {
  auto c = make(1, 1001, torch::kFloat64);
  const auto layout = Layout::packed(torch::tensor({0, 301, 308, 610, 1001}));
  const auto inputs = test::inputs_with_gradients(c);
  const auto fast = layout.to_rows(c.mixer->mix(c.x, c.params, layout));
  const auto dense = dense_apply(c.mixer->materialize(c.params, 1001, layout), layout.to_rows(c.x));
  expect_close(fast, dense, kFastTolerance, GetParam().label);
  test::expect_equal_gradients(fast, dense, inputs, kFastTolerance, GetParam().label);
}

TEST_P(Subquadratic, Float32IsCloseToFloat64) {
  const auto single = make(2, 1501, torch::kFloat32);
  auto exact = make(2, 1501, torch::kFloat64);
  {
    torch::NoGradGuard no_grad;  // the same numbers: only the arithmetic differs
    for (auto& p : exact.mixer->parameters()) p.copy_(p.to(torch::kFloat32));
  }
  expect_close(single.mixer->mix(single.x, single.params),
               exact.mixer->mix(single.x.to(torch::kFloat64), single.params.to(torch::kFloat64)),
               2e-6, GetParam().label);
}

TEST_P(Subquadratic, TakesCudaTensorsWhereThereIsACudaDevice) {
  if (!torch::cuda::is_available()) GTEST_SKIP() << "this machine or this LibTorch has no CUDA";
  auto c = make(2, 1001, torch::kFloat64);
  const auto dy = torch::randn_like(c.mixer->mix(c.x, c.params));
  const auto all = [&](torch::Device device) {
    c.mixer->to(device);
    auto x = c.x.to(device).requires_grad_(), params = c.params.to(device).requires_grad_();
    std::vector<torch::Tensor> inputs{x, params}, results{c.mixer->mix(x, params)};
    for (const auto& p : c.mixer->parameters()) inputs.push_back(p);
    for (const auto& g : torch::autograd::grad({results[0]}, inputs, {dy.to(device)}, false, false,
                                               /*allow_unused=*/true))
      results.push_back(g.defined() ? g : torch::zeros({1}, dy.options()));
    return results;
  };
  const auto expected = all(torch::kCPU), first = all(torch::kCUDA), again = all(torch::kCUDA);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    expect_close(first[i].cpu(), expected[i], kFastTolerance,
                 GetParam().label + ", result " + std::to_string(i));
    EXPECT_TRUE(torch::equal(first[i], again[i])) << "other bits, result " << i;
  }
}

INSTANTIATE_TEST_SUITE_P(All, Subquadratic, ::testing::ValuesIn(kFamilies),
                         [](const auto& test) { return test.param.label; });

}  // namespace
}  // namespace hydramix
