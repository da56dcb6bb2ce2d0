// SPDX-License-Identifier: Apache-2.0
#include "serve/work_parts.h"

#include "fake_model.h"
#include "support/expect.h"

namespace hydramix::serve {
namespace {

// The lengths of the texts of each part.
std::vector<std::vector<int64_t>> parted(const std::vector<int64_t>& lengths, int64_t most_tokens) {
  Work work{test::fake_model(), WorkKind::kWords, {}, 7};
  for (const auto length : lengths) {
    auto& text = work.texts.emplace_back();
    text.ids.assign(static_cast<std::size_t>(length), 5);
  }
  std::vector<std::vector<int64_t>> result;
  for (const auto& part : parts_of(std::move(work), most_tokens)) {
    EXPECT_EQ(part.model->name, "fake");
    EXPECT_EQ(part.kind, WorkKind::kWords);
    EXPECT_EQ(part.top, 7);
    auto& its_lengths = result.emplace_back();
    for (const auto& text : part.texts) its_lengths.push_back(std::ssize(text.ids));
  }
  return result;
}

using Parts = std::vector<std::vector<int64_t>>;

TEST(WorkParts, HoldAsManyTextsAsTheTokensAllow) {
  EXPECT_EQ(parted({3, 3, 3, 3, 3}, 6), (Parts{{3, 3}, {3, 3}, {3}}));
  EXPECT_EQ(parted({3, 3, 3}, 100), (Parts{{3, 3, 3}}));
  EXPECT_EQ(parted({2, 9, 2, 2}, 4), (Parts{{2}, {9}, {2, 2}}));
}

TEST(WorkParts, CountTheTokensOfImages) {
  Work work{test::fake_model("images"), WorkKind::kImages, {}};  // of four tokens each
  work.images.resize(5);
  const auto parts = parts_of(std::move(work), 9);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].images.size(), 2U);
  EXPECT_EQ(parts[2].images.size(), 1U);
}

}  // namespace
}  // namespace hydramix::serve
