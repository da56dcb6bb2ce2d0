// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for recipes: any text is refused with an Error or read into options that stay
// within their ranges.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "hydramix/error.h"
#include "hydramix/options.h"

namespace {

struct Inner {
  std::string name = "a";
  double share = 0.5;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("name", self.name, hydramix::Choices{"a", "b"}, "one of two");
    v("share", self.share, hydramix::Range{0.0, 1.0}, "a share");
  }
};

struct Recipe {
  std::int64_t layers = 1;
  bool bias = false;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> words;
  Inner inner;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("layers", self.layers, hydramix::Range{1, 4096}, "a count");
    v("bias", self.bias, "a flag");
    v("sizes", self.sizes, hydramix::Range{0, 100}, "numbers");
    v("words", self.words, "texts");
    v("inner", self.inner, "a section");
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Recipe recipe;
  try {
    hydramix::parse_yaml(recipe, std::string(reinterpret_cast<const char*>(data), size), "fuzz");
  } catch (const hydramix::Error&) {
  }
  if (recipe.layers < 1 || recipe.layers > 4096) __builtin_trap();
  if (!(recipe.inner.share >= 0 && recipe.inner.share <= 1)) __builtin_trap();
  if (recipe.inner.name != "a" && recipe.inner.name != "b") __builtin_trap();
  for (const auto number : recipe.sizes)
    if (number < 0 || number > 100) __builtin_trap();
  return 0;
}
