// SPDX-License-Identifier: Apache-2.0
#include "hydramix/graphed_encoder.h"

#include "hydramix/error.h"
#include "ops/projection.h"
#include "support/gpu.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

BertOptions small_bert(const std::string& mixer) {
  BertOptions options;
  options.vocab = 101;
  options.layers = 2;
  options.positions = 400;
  options.block.mixer = mixer;
  options.block.d_model = 64;
  options.block.headdim = 32;
  options.block.mixer_options.d_state = 16;
  return options;
}

using GraphedEncoderTest = test::OnGpu;

// Requests of many lengths share one captured graph; each sequence gives the same output as alone.
TEST_F(GraphedEncoderTest, IsTheEncoder) {
  torch::manual_seed(1);
  BertForMaskedLM model(small_bert("hydra"));
  model->to(torch::kCUDA);
  model->eval();
  GraphedEncoder graphed(model->encoder(), 1024);
  const torch::NoGradGuard no_grad;
  const std::vector<std::vector<int64_t>> requests{{5},          {128},      {3, 100, 20},   {127},
                                                   {1, 1, 1, 1}, {300},      {129, 2, 200},  {5},
                                                   {400, 17},    {350, 300}, {400, 400, 399}};
  for (const auto& lengths : requests) {
    std::vector<std::vector<int64_t>> sequences;
    for (const int64_t length : lengths) {
      sequences.emplace_back();
      for (int64_t i = 0; i < length; ++i)
        sequences.back().push_back((7 * i * i + length + static_cast<int64_t>(sequences.size())) %
                                   101);
    }
    const auto hidden = graphed.encode(sequences).clone();
    int64_t at = 0;
    for (const auto& sequence : sequences) {
      const auto n = static_cast<int64_t>(sequence.size());
      const auto ids = torch::tensor(sequence, torch::kInt64).unsqueeze(0).to(torch::kCUDA);
      EXPECT_LE(test::norm_error(hidden.narrow(0, at, n), model->encode(ids, {})[0]), 1e-2)
          << n << " tokens of " << hidden.size(0);
      at += n;
    }
    EXPECT_EQ(at, hidden.size(0));
  }
  EXPECT_EQ(graphed.encode({}).size(0), 0);
  EXPECT_THROW(graphed.encode({std::vector<int64_t>(401, 1)}), Error) << "beyond the positions";
  EXPECT_THROW(graphed.encode({{1, 101}}), Error) << "an id beyond the vocabulary";
}

TEST_F(GraphedEncoderTest, RefusesModelsThatCannotBeCaptured) {
  BertForMaskedLM attention(small_bert("attention"));
  attention->to(torch::kCUDA);
  attention->eval();
  EXPECT_THROW(GraphedEncoder{attention->encoder()}, UsageError);
  BertForMaskedLM training(small_bert("hydra"));
  training->to(torch::kCUDA);
  EXPECT_THROW(GraphedEncoder{training->encoder()}, UsageError);
  BertForMaskedLM fixed(small_bert("quasiseparable_di"));
  fixed->to(torch::kCUDA);
  fixed->eval();
  EXPECT_THROW(GraphedEncoder{fixed->encoder()}, UsageError);
}

TEST(GraphedEncoderOnTheCpu, IsRefused) {
  BertForMaskedLM model(small_bert("hydra"));
  model->eval();
  EXPECT_THROW(GraphedEncoder{model->encoder()}, UsageError);
}

}  // namespace
}  // namespace hydramix
