// SPDX-License-Identifier: Apache-2.0
// Cases by hand; the expected values follow from conlleval's rules.
#include "tasks/entities.h"

#include "support/expect.h"

namespace hydramix {
namespace {

using Tags = std::vector<std::string>;
using Found = std::vector<Entity>;

TEST(Entities, BeginWithBAndContinueWithI) {
  EXPECT_EQ(entities(Tags{"O", "B-PER", "I-PER", "O", "B-LOC"}),
            (Found{{"PER", 1, 3}, {"LOC", 4, 5}}));
  EXPECT_EQ(entities(Tags{"B-PER", "B-PER"}), (Found{{"PER", 0, 1}, {"PER", 1, 2}}));
  EXPECT_EQ(entities(Tags{"B-PER", "I-LOC"}), (Found{{"PER", 0, 1}, {"LOC", 1, 2}}));
  EXPECT_TRUE(entities(Tags{"O", "O"}).empty());
  EXPECT_TRUE(entities(Tags{}).empty());
}

// As in IOB1, where B- only separates neighbours of one type.
TEST(Entities, AnIThatContinuesNothingBegins) {
  EXPECT_EQ(entities(Tags{"I-PER", "I-PER", "O", "I-PER"}), (Found{{"PER", 0, 2}, {"PER", 3, 4}}));
  EXPECT_EQ(entities(Tags{"I-PER", "B-PER"}), (Found{{"PER", 0, 1}, {"PER", 1, 2}}));
}

TEST(Entities, OfIobesEndWithEAndStandAloneWithS) {
  EXPECT_EQ(entities(Tags{"B-PER", "I-PER", "E-PER", "S-LOC", "I-LOC"}),
            (Found{{"PER", 0, 3}, {"LOC", 3, 4}, {"LOC", 4, 5}}));
  EXPECT_EQ(entities(Tags{"E-PER", "E-PER"}), (Found{{"PER", 0, 1}, {"PER", 1, 2}}));
}

TEST(Entities, TypesMayHaveDashes) {
  EXPECT_EQ(entities(Tags{"B-work-of-art", "I-work-of-art"}), (Found{{"work-of-art", 0, 2}}));
  EXPECT_TRUE(is_entity_tag("O") && is_entity_tag("S-X"));
  EXPECT_FALSE(is_entity_tag("NOUN") || is_entity_tag("B-") || is_entity_tag("X-PER"));
}

// The example of seqeval's documentation: one of two entities is exact.
TEST(Entities, CountOnlyWhenTypeAndBothEndsAreRight) {
  EntityCounts counts;
  counts.add(Tags{"O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"},
             Tags{"O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"});
  counts.add(Tags{"B-PER", "I-PER", "O"}, Tags{"B-PER", "I-PER", "O"});
  EXPECT_DOUBLE_EQ(counts.precision(), 0.5);
  EXPECT_DOUBLE_EQ(counts.recall(), 0.5);
  EXPECT_DOUBLE_EQ(counts.f1(), 0.5);

  EntityCounts other;
  other.add(Tags{"B-PER", "O", "B-LOC"}, Tags{"B-LOC", "O", "B-LOC"});  // a wrong type
  other.add(Tags{"O", "O"}, Tags{"B-PER", "O"});                        // a missed one
  EXPECT_DOUBLE_EQ(other.precision(), 1.0 / 2);
  EXPECT_DOUBLE_EQ(other.recall(), 1.0 / 3);
  EXPECT_DOUBLE_EQ(other.f1(), 2.0 / 5);
  EXPECT_EQ(EntityCounts{}.f1(), 0);
}

}  // namespace
}  // namespace hydramix
