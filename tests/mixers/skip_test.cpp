// SPDX-License-Identifier: Apache-2.0
// The option `skip`: without it a causal mixer has no weight D and nothing on its diagonal from it.
#include "support/tensors.h"

namespace hydramix {
namespace {

using test::CaseSizes;
using test::expect_close;
using test::random_case;

CaseSizes without_skip(int64_t L) {
  CaseSizes sizes{.L = L};
  sizes.options.skip = false;
  return sizes;
}

class Skip : public ::testing::TestWithParam<std::string> {};

TEST_P(Skip, CanBeLeftOut) {
  const auto c = random_case(GetParam(), without_skip(33), torch::kFloat64, 31);
  for (const auto& p : c.mixer->named_parameters()) EXPECT_NE(p.key(), "D");
  expect_close(c.mixer->mix(c.x, c.params), dense_apply(c.mixer->materialize(c.params, 33), c.x),
               1e-12, GetParam());
}

INSTANTIATE_TEST_SUITE_P(All, Skip, ::testing::ValuesIn(causal_mixer_names()),
                         test::parameter_name);

TEST(SkipOfMamba, IsTheDiagonalD) {
  const auto with = random_case("semiseparable", {.L = 12}, torch::kFloat64, 32);
  const auto without = random_case("semiseparable", without_skip(12), torch::kFloat64, 33);
  torch::NoGradGuard no_grad;
  for (auto& p : without.mixer->named_parameters())
    p.value().copy_(with.mixer->named_parameters()[p.key()]);
  const auto D = with.mixer->named_parameters()["D"];
  expect_close(with.mixer->materialize(with.params, 12),
               without.mixer->materialize(with.params, 12) +
                   torch::diag_embed(D.unsqueeze(1).expand({4, 12})),
               1e-14, "semiseparable, matrix");
  expect_close(with.mixer->mix(with.x, with.params),
               without.mixer->mix(with.x, with.params) + D.view({4, 1}) * with.x, 1e-13,
               "semiseparable, product");
}

}  // namespace
}  // namespace hydramix
