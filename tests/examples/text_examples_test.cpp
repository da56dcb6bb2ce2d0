// SPDX-License-Identifier: Apache-2.0
// examples/search_texts, fill_mask and add_mixer, run as processes, agree with the library.
#include <fstream>
#include <sstream>

#include "base/formatted.h"
#include "hydramix/fill_mask.h"
#include "hydramix/model_folder.h"
#include "hydramix/text_embedder.h"
#include "support/classifiers.h"
#include "support/command.h"

namespace hydramix {
namespace {

test::Result run_example(const std::string& name, const std::string& arguments) {
  return test::run_program(HYDRAMIX_EXAMPLES + name, arguments);
}

struct TextExamples : ::testing::Test {
  TextExamples() {
    save_model(folder.path(), test::lively_masked_lm());
    test::small_tokenizer().save(folder / "tokenizer.json");
  }
  test::TemporaryFolder folder;
};

TEST_F(TextExamples, SearchTextsPrintsTheNearestFirst) {
  std::ofstream(folder / "texts") << "w1 w2 w3\nw7\nw4 w5 w6\n";
  const auto r = run_example(
      "search_texts", folder.path().string() + " 'w4 w5 w6' <" + (folder / "texts").string());
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_TRUE(r.out.starts_with("1.0000  w4 w5 w6\n")) << r.out;
  EXPECT_EQ(std::count(r.out.begin(), r.out.end(), '\n'), 3);
  EXPECT_EQ(run_example("search_texts", "one").code, 2);
  EXPECT_EQ(run_example("search_texts", "/nowhere x </dev/null").code, 1);
}

TEST_F(TextExamples, FillMaskPrintsWords) {
  const auto r = run_example("fill_mask", folder.path().string() + " 'w1 [MASK] w2'");
  EXPECT_EQ(r.code, 0) << r.err;
  const auto answer = FillMask::open(folder.path()).fill("w1 [MASK] w2", 3);
  std::string expected = "[MASK]\n";
  for (const auto& word : answer.masks[0])
    expected += formatted("  %.4f  %s\n", word.probability, word.token);
  EXPECT_EQ(r.out, expected);
  const auto none = run_example("fill_mask", folder.path().string() + " 'w1'");
  EXPECT_EQ(none.code, 1);
  EXPECT_TRUE(test::contains(none.err, "has no [MASK]")) << none.err;
}

TEST(AddMixer, TrainsAModelWithAMixerOfItsOwn) {
  const auto r = run_example("add_mixer", "");
  EXPECT_EQ(r.code, 0) << r.err << r.out;
  EXPECT_TRUE(test::contains(r.out, "exp(-a |i - j|): loss ")) << r.out;
}

}  // namespace
}  // namespace hydramix
