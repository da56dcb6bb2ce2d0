// SPDX-License-Identifier: Apache-2.0
#include "serve/held_bytes.h"

#include "fake_model.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

TEST(HeldBytes, OfAllRequestsHaveALimit) {
  ByteBudget budget(100);
  HeldBytes a(budget);
  {
    HeldBytes b(budget);
    EXPECT_TRUE(a.try_set(60));
    EXPECT_FALSE(b.try_set(41));
    EXPECT_TRUE(b.try_set(40));
    EXPECT_FALSE(a.try_set(61));
    EXPECT_TRUE(a.try_set(10));
    EXPECT_TRUE(a.try_set(60));
  }
  HeldBytes c(budget);
  EXPECT_TRUE(c.try_set(40));  // those of b are given back
  c.set(1000);                 // whatever the limit
  EXPECT_TRUE(a.try_set(60));
  EXPECT_FALSE(a.try_set(61));
}

TEST(HeldBytes, OfOneRequestAloneMayBeMore) {
  ByteBudget budget(100);
  HeldBytes one(budget), other(budget);
  EXPECT_TRUE(one.try_set(1000));
  EXPECT_TRUE(one.try_set(2000));
  EXPECT_FALSE(other.try_set(1));
}

TEST(Work, CountsItsBytesWithTheResults) {
  const auto model = test::fake_model();
  Encoding text;
  text.ids.assign(1000, model->tokenizer->special().mask);
  Work work{model, WorkKind::kVectors, {text}};
  EXPECT_LT(work.bytes(), 10'000);
  work.kind = WorkKind::kTokenVectors;  // width 2
  EXPECT_GE(work.bytes(), 1000 * 2 * 18);
  work.kind = WorkKind::kWords;
  work.top = 50;
  EXPECT_GE(work.bytes(), 1000 * 50 * 100);
  work.kind = WorkKind::kMatrices;
  work.layer = 1;
  EXPECT_GE(work.bytes(), 3 * 1000 * 1000 * 8);
  const Work image{test::fake_model("images"), WorkKind::kImages, {}, 0, 0, 0, {{1, 2, 3}}};
  EXPECT_GE(image.bytes(), 12);
}

TEST(EmbedAll, AnswersWithALimitedNumberOfNumbers) {
  auto model = test::fake_model();
  RouteContext context;
  context.model = [&](const std::string&, std::string_view) { return model; };
  model->width = (1 << 22) / 3;  // "w1" has three tokens
  EXPECT_TRUE(prepare_embed_all(R"({"inputs": "w1"})", context).work);
  EXPECT_THROW_WITH(prepare_embed_all(R"({"inputs": "w1 w2"})", context), HttpError,
                    "numbers together");
}

}  // namespace
}  // namespace hydramix::serve
