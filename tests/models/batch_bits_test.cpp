// SPDX-License-Identifier: Apache-2.0
// The output of a sequence has the same bits whatever is batched with it, which servers rely on.
// Products (ops/product_test), scan, convolution and norms each guarantee their part.
#include "hydramix/bert.h"
#include "hydramix/registry.h"
#include "ops/projection.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/threads.h"

namespace hydramix {
namespace {

using torch::Tensor;

// Sequences on both sides of the scan's tile, more rows than a block of a product has.
const std::vector<int64_t> kLengths{1, 2, 63, 64, 65, 130, 7, 300, 11, 700};

class BatchBits : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    torch::manual_seed(3);
    auto options = test::tiny_bert(GetParam());
    options.block.d_model = 40;
    options.block.mixer_options.max_length = 1024;
    model = BertForMaskedLM(options);
    model->eval();
    for (const int64_t length : kLengths)
      ids.push_back(torch::randint(1, 30, {1, length}, torch::kInt64));
    for (const auto& one : ids) alone.push_back(logits(one, {}));
  }
  Tensor logits(const Tensor& tokens, const Layout& layout) {
    const torch::NoGradGuard no_grad;
    return model->predict(model->encode(tokens, {}, layout));
  }

  BertForMaskedLM model{nullptr};
  std::vector<Tensor> ids, alone;  // (1, length), (1, length, vocabulary)
};

TEST_P(BatchBits, Packed) {
  std::vector<int64_t> offsets{0};
  for (const int64_t length : kLengths) offsets.push_back(offsets.back() + length);
  const auto layout = Layout::packed(torch::tensor(offsets));
  const auto all = logits(torch::cat(ids, 1), layout);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(torch::equal(all.narrow(1, offsets[i], kLengths[i]), alone[i]))
        << kLengths[i] << " tokens";
  test::same_for_any_threads(
      [&] { return std::vector<Tensor>{logits(torch::cat(ids, 1), layout)}; });
}

TEST_P(BatchBits, Padded) {
  const int64_t longest = *std::max_element(kLengths.begin(), kLengths.end());
  std::vector<Tensor> rows;
  for (const auto& one : ids)
    rows.push_back(torch::constant_pad_nd(one, {0, longest - one.size(1)}));
  const auto mask = torch::arange(longest) < torch::tensor(kLengths).unsqueeze(1);
  const auto all = logits(torch::cat(rows), Layout::padded(mask));
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_TRUE(torch::equal(all[static_cast<int64_t>(i)].narrow(0, 0, kLengths[i]), alone[i][0]))
        << kLengths[i] << " tokens";
}

INSTANTIATE_TEST_SUITE_P(All, BatchBits, ::testing::ValuesIn(mixer_names()), test::parameter_name);

}  // namespace
}  // namespace hydramix
