// SPDX-License-Identifier: Apache-2.0
#include "train/masked_lm.h"

#include "language/language_documents.h"
#include "support/tensors.h"

namespace hydramix {
namespace {

struct Fixture : ::testing::Test {
  Tokenizer tokenizer = language_tokenizer();
  LanguageDocuments training{{}, Split::kTrain, 100}, validation{{}, Split::kValidation, 40};
  SequenceOptions sequences;
  MaskedBatches training_batches{training, tokenizer, sequences, 1};
  MaskedBatches validation_batches{validation, tokenizer, sequences, 1};
  BertForMaskedLM model = make_model();
  MaskedLm task{model,
                training_batches,
                validation,
                validation_batches,
                {.micro_batch = 7, .evaluation_documents = 40}};

  BertForMaskedLM make_model() const {
    torch::manual_seed(1);
    BertOptions options;
    options.vocab = tokenizer.size();
    options.layers = 3;
    options.block.d_model = 16;
    options.block.headdim = 8;
    options.block.mixer_options.d_state = 4;
    return BertForMaskedLM(options);
  }
};
using MaskedLmTest = Fixture;

TEST_F(MaskedLmTest, TheLossIsThatOfThePlainHeadOnEverySequenceAlone) {
  const auto totals = task.accumulate({5, 6}, Slice{11, 6});
  double loss = 0, terms = 0;
  const auto batch = training_batches.training(5, 6);
  for (std::size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    const std::vector<int64_t> ids(batch.ids.begin() + batch.offsets[s],
                                   batch.ids.begin() + batch.offsets[s + 1]);
    auto labels = torch::zeros({static_cast<int64_t>(ids.size())}, torch::kInt64);
    double count = 0;
    for (std::size_t p = 0; p < batch.positions.size(); ++p)
      if (batch.positions[p] >= batch.offsets[s] && batch.positions[p] < batch.offsets[s + 1]) {
        labels[batch.positions[p] - batch.offsets[s]] = batch.targets[p];
        ++count;
      }
    const auto hidden = model->encode(torch::tensor(ids, torch::kInt64).unsqueeze(0), {});
    loss += count * BertForMaskedLMImpl::loss(model->predict(hidden)[0], labels).item<double>();
    terms += count;
  }
  EXPECT_EQ(totals.terms, terms);
  EXPECT_EQ(totals.tokens, static_cast<double>(batch.ids.size()));
  EXPECT_NEAR(totals.loss(), loss, 1e-4 * loss);
  // A prefetched batch equals one made on demand.
  const auto ready = task.accumulate({11, 6}, std::nullopt);
  MaskedLm fresh(make_model(), training_batches, validation, validation_batches, {});
  EXPECT_EQ(ready.loss(), fresh.accumulate({11, 6}, std::nullopt).loss());
}

TEST_F(MaskedLmTest, EvaluationAddsUpOverRanksAndKinds) {
  const auto whole = task.evaluate(0, 1);
  std::vector<double> sum(whole.size());
  for (int64_t rank = 0; rank < 3; ++rank) {
    const auto part = task.evaluate(rank, 3);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
  }
  for (std::size_t i = 0; i < sum.size(); ++i) EXPECT_NEAR(sum[i], whole[i], 1e-9 * whole[i]);
  double places = 0;
  for (std::size_t k = 0; k < validation.kinds().size(); ++k) {
    places += whole[3 + 3 * k];
    EXPECT_LE(whole[4 + 3 * k], whole[3 + 3 * k]);
    EXPECT_LE(whole[5 + 3 * k], whole[3 + 3 * k]);
  }
  // Four of five masked places show [MASK].
  EXPECT_NEAR(places / whole[1], 0.8, 0.08);
  const auto summary = task.summary(whole);
  EXPECT_NEAR(summary.at("loss").get<double>(), std::log(static_cast<double>(tokenizer.size())),
              1.0);  // nothing is learned yet
  EXPECT_EQ(summary.at("kinds").size(), validation.kinds().size());
}

TEST_F(MaskedLmTest, EveryDocumentIsEvaluatedUnlessToldOtherwise) {
  const auto places = [&](int64_t documents) {
    MaskedLm own(model, training_batches, validation, validation_batches,
                 {.micro_batch = 7, .evaluation_documents = documents});
    return own.evaluate(0, 1)[1];
  };
  EXPECT_EQ(places(0), static_cast<double>(validation_batches.evaluation(0, 40).positions.size()));
  EXPECT_EQ(places(9), static_cast<double>(validation_batches.evaluation(0, 9).positions.size()));
  EXPECT_EQ(MaskedLmSettings{}.evaluation_documents, 0);
}

TEST_F(MaskedLmTest, AFaultIsFoundInItsLayer) {
  EXPECT_NE(task.find_fault({0, 2}).find("every layer's output is finite"), std::string::npos);
  torch::NoGradGuard no_grad;
  for (auto& item : model->named_parameters())
    if (item.key().find("layer.1.") != std::string::npos &&
        item.key().find("out_proj.weight") != std::string::npos)
      item.value().fill_(3e38);
  const auto fault = task.find_fault({40, 3});
  EXPECT_NE(fault.find("the output of layer 1 is the first not finite"), std::string::npos)
      << fault;
  EXPECT_NE(fault.find("sequences 40 to 42 (documents "), std::string::npos) << fault;
}

}  // namespace
}  // namespace hydramix
