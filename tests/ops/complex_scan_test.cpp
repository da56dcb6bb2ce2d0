// SPDX-License-Identifier: Apache-2.0
#include "ops/complex_scan.h"

#include "hydramix/error.h"
#include "kernels/cpu/isa.h"
#include "support/expect.h"
#include "support/tensors.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using test::expect_close;

struct ComplexCase {
  torch::Tensor x, re, im, dy;
  Sequences sequences{{0}};

  torch::Tensor run() const { return complex_scan(x, re, im, sequences); }
  std::vector<torch::Tensor> gradients(const torch::Tensor& y) const {
    return torch::autograd::grad({y}, {x, re, im}, {dy});
  }
  // The recurrence in real and imaginary parts, position by position.
  torch::Tensor reference() const {
    std::vector<torch::Tensor> y{dy.narrow(0, 0, 0)};
    const auto& offsets = sequences.offsets();
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      auto h_re = torch::zeros_like(re), h_im = torch::zeros_like(re);
      for (int64_t t = offsets[s]; t < offsets[s + 1]; ++t) {
        const auto next = re * h_re - im * h_im + x[t];
        h_im = re * h_im + im * h_re;
        h_re = next;
        y.push_back(torch::stack({h_re, h_im}).unsqueeze(0));
      }
    }
    return torch::cat(y);
  }
};

ComplexCase random_complex(const std::vector<int64_t>& lengths, int64_t C) {
  torch::manual_seed(61);
  std::vector<int64_t> offsets{0};
  for (const int64_t length : lengths) offsets.push_back(offsets.back() + length);
  const auto options = torch::TensorOptions(torch::kFloat64);
  ComplexCase c;
  c.x = torch::randn({offsets.back(), C}, options).requires_grad_();
  const auto size = 0.9 + 0.1 * torch::rand({C}, options), angle = 6.3 * torch::rand({C}, options);
  c.re = (size * angle.cos()).requires_grad_(), c.im = (size * angle.sin()).requires_grad_();
  c.dy = torch::randn({offsets.back(), 2, C}, options);
  c.sequences = Sequences(offsets);
  return c;
}

class ComplexScan : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { kernels::use_instruction_set(GetParam()); }
  void TearDown() override { kernels::use_instruction_set(""); }
};

TEST_P(ComplexScan, EqualsTheRecurrenceWithGradients) {
  for (const int64_t C : {1, 7, 8, 130})
    for (const auto& lengths : std::vector<std::vector<int64_t>>{{1}, {64, 0, 65}, {150}}) {
      const auto c = random_complex(lengths, C);
      const auto fast = c.run(), slow = c.reference();
      expect_close(fast, slow, 1e-12, concat("C ", C));
      const auto a = c.gradients(fast), b = c.gradients(slow);
      for (std::size_t i = 0; i < a.size(); ++i)
        expect_close(a[i], b[i], 1e-12, concat("C ", C, ", gradient ", i));
    }
}

// A factor rounded to float32 would be off by 10^4 times 6e-8 here.
TEST_P(ComplexScan, Float32KeepsItsDigitsOverLongSequences) {
  const int64_t L = 20000;
  const auto angle = torch::tensor({1.0}, torch::kFloat64);
  const auto re = 0.99999 * angle.cos(), im = 0.99999 * angle.sin();
  auto x = torch::zeros({L, 1}, torch::kFloat64);
  x[0] = 1;
  const Sequences one({0, L});
  const auto exact = complex_scan(x, re, im, one);
  const auto single = complex_scan(x.to(torch::kFloat32), re, im, one);
  EXPECT_LT(test::relative_error(single, exact), 2e-6);
}

INSTANTIATE_TEST_SUITE_P(All, ComplexScan, ::testing::ValuesIn(kernels::instruction_sets()),
                         test::parameter_name);

TEST(ComplexScanParts, BitsDependNeitherOnOtherSequencesNorOnThreads) {
  const auto c = random_complex({40, 70}, 300);
  const auto y = test::same_for_any_threads([&] { return std::vector{c.run()}; })[0];
  EXPECT_TRUE(
      torch::equal(y.slice(0, 40), complex_scan(c.x.slice(0, 40), c.re, c.im, Sequences({0, 70}))));
}

TEST(ComplexScanParts, ErrorsNameTheTensor) {
  const auto c = random_complex({8}, 3);
  EXPECT_THROW_WITH(complex_scan(c.x[0], c.re, c.im, c.sequences), Error,
                    "complex scan: x must be (n, C)");
  EXPECT_THROW_WITH(complex_scan(c.x, c.re, c.im.to(torch::kFloat32), c.sequences), Error,
                    "im must be float64 of shape [3] on cpu; got Float of shape [3] on cpu");
}

}  // namespace
}  // namespace hydramix
