// SPDX-License-Identifier: Apache-2.0
// The pictures in docs are those that scripts/make_pictures.sh draws today. Everything must be
// equal to the letter except the pixels of matrices, which may differ by one step of a colour:
// other machines round differently, and other versions of zlib pack differently.
#include <cstdlib>
#include <filesystem>
#include <set>

#include "base/atomic_file.h"
#include "support/command.h"
#include "view/page_fixtures.h"
#include "view/xml_reader.h"

namespace hydramix {
namespace {

using namespace test;

// At any depth, relative to the folder.
std::set<std::string> svg_files(const std::filesystem::path& folder) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.path().extension() == ".svg")
      names.insert(std::filesystem::relative(entry.path(), folder));
  return names;
}

Canvas embedded_image(const XmlElement& image) {
  TemporaryFolder folder;
  const std::string link = image.attributes.at("href");
  write_file(folder / "i.png", decode_base64(link.substr(link.find(',') + 1)));
  return read_png(folder / "i.png");
}

void expect_same_image(const XmlElement& a, const XmlElement& b) {
  const Canvas x = embedded_image(a), y = embedded_image(b);
  ASSERT_EQ(x.bytes().size(), y.bytes().size());
  for (std::size_t i = 0; i < x.bytes().size(); ++i)
    ASSERT_NEAR(x.bytes()[i], y.bytes()[i], 1) << "byte " << i;
}

void expect_same_picture(const std::string& drawn, const std::string& kept) {
  if (drawn == kept) return;
  const auto a = XmlReader::read(drawn), b = XmlReader::read(kept);
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].name, b[i].name);
    ASSERT_EQ(a[i].text, b[i].text);
    auto left = a[i].attributes, right = b[i].attributes;
    if (a[i].name == "image") {
      expect_same_image(a[i], b[i]);
      left.erase("href");
      right.erase("href");
    }
    ASSERT_EQ(left, right);
  }
}

TEST(Pictures, InDocsAreCurrent) {
  if (!std::string_view(HYDRAMIX_LIBTORCH).starts_with("1."))
    GTEST_SKIP() << "docs are drawn with LibTorch 1.13; the random weights of " HYDRAMIX_LIBTORCH
                    " are others";
  TemporaryFolder folder;
  const std::filesystem::path source = HYDRAMIX_SOURCE_DIR;
  const auto build = std::filesystem::path(HYDRAMIX_COMMAND).parent_path().parent_path();
  const std::string command = "HYDRAMIX_BUILD=" + build.string() + " " +
                              (source / "scripts/make_pictures.sh").string() + " " +
                              folder.path().string() + " > " + (folder / "log").string();
  ASSERT_EQ(std::system(command.c_str()), 0) << read_file(folder / "log");
  EXPECT_EQ(svg_files(folder.path()), svg_files(source / "docs"))
      << "every picture in docs comes from the script";
  for (const auto& name : svg_files(folder.path())) {
    SCOPED_TRACE("docs/" + name + " is not what scripts/make_pictures.sh draws; run it");
    if (std::filesystem::exists(source / "docs" / name))
      expect_same_picture(read_file(folder / name), read_file(source / "docs" / name));
  }
}

}  // namespace
}  // namespace hydramix
