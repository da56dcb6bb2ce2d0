// SPDX-License-Identifier: Apache-2.0
#include "base/quotes.h"

#include <gtest/gtest.h>

namespace hydramix {
namespace {

TEST(Quotes, ControlCharactersAreEscaped) {
  EXPECT_EQ(escaped("plain name"), "plain name");
  EXPECT_EQ(escaped("\x1b[31mred\nnew"), "\\u001b[31mred\\nnew");
  EXPECT_EQ(in_quotes("a\"b"), "\"a\\\"b\"");
  EXPECT_EQ(escaped("\xff"), "\xef\xbf\xbd") << "bytes that are not UTF-8 become U+FFFD";
}

TEST(Quotes, LongTextsAreTruncatedBetweenCharacters) {
  const std::string cut = escaped(std::string(1000, 'x'));
  EXPECT_EQ(cut, std::string(160, 'x') + "...");
  EXPECT_EQ(escaped(std::string(159, 'x') + "\xc3\xa4\xc3\xa4"), std::string(159, 'x') + "...");
}

}  // namespace
}  // namespace hydramix
