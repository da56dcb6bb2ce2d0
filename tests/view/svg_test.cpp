// SPDX-License-Identifier: Apache-2.0
// Pages as SVG files: well-formed, escaped, and the same as the layout.
#include "view/svg.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"
#include "view/page_fixtures.h"
#include "view/xml_reader.h"

namespace hydramix {
namespace {

using namespace test;

std::vector<XmlElement> svg_of(const std::vector<MatrixPicture>& pictures,
                               const PageOptions& options = {}) {
  TemporaryFolder folder;
  write_svg(folder / "m.svg", pictures, options);
  const auto files = std::distance(std::filesystem::directory_iterator(folder.path()),
                                   std::filesystem::directory_iterator());
  EXPECT_EQ(files, 1) << "a temporary file was left";
  return XmlReader::read(read_file(folder / "m.svg"));
}

int64_t integer(const XmlElement& element, const std::string& attribute) {
  return std::stoll(element.attributes.at(attribute));
}

// The other tests rely on this reader, so it must refuse broken files.
TEST(XmlReader, RefusesWhatIsNotWellFormed) {
  const std::string head = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  EXPECT_EQ(XmlReader::read(head + "<a b=\"1 &lt; 2\"><c/>x &amp; y</a>\n").at(0).text, "x & y");
  for (const char* broken :
       {"<a>", "<a></b>", "<a/><b/>", "<a>x & y</a>", "<a b=1/>", "<a b=\"<\"/>", "<a>\x01</a>",
        "<a b=\"1\" b=\"2\"/>", "text", "<a>&nbsp;</a>", "<a><b></a></b>"})
    EXPECT_THROW(XmlReader::read(head + broken), std::runtime_error) << broken;
}

TEST(MatrixSvg, TitlesAreEscaped) {
  MatrixPicture picture = wave_picture(4, 4, "a < b & \"c\"");
  picture.subtitle = "<script>alert('x')</script> \x01 \xce\xb4 &amp;";
  const auto texts = named(svg_of({picture}), "text");
  ASSERT_GE(texts.size(), 2u);
  EXPECT_EQ(texts[0].text, "a < b & \"c\"");
  EXPECT_EQ(texts[1].text, "<script>alert('x')</script> ? ? &amp;");
  EXPECT_EQ(named(svg_of({picture}), "title").at(0).text, "a < b & \"c\"");
}

TEST(MatrixSvg, HasTheSizeOfThePageAndAViewBox) {
  const auto pictures = gallery_pictures(5, 12);
  const Page page = layout_page(pictures, {});
  const XmlElement root = svg_of(pictures).at(0);
  EXPECT_EQ(root.name, "svg");
  EXPECT_EQ(root.attributes.at("xmlns"), "http://www.w3.org/2000/svg");
  EXPECT_EQ(integer(root, "width"), page.width);
  EXPECT_EQ(root.attributes.at("viewBox"), concat("0 0 ", page.width, " ", page.height));
}

TEST(MatrixSvg, SaysTheSameTextsAtTheSamePlacesAsTheLayout) {
  const auto pictures = gallery_pictures(7, 12);
  const PageOptions options{"All of them", 0, 0};
  const Page page = layout_page(pictures, options);
  const auto texts = named(svg_of(pictures, options), "text");
  ASSERT_EQ(texts.size(), page.texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const PageText& wanted = page.texts[i];
    EXPECT_EQ(texts[i].text, wanted.text);
    EXPECT_EQ(integer(texts[i], "x"), wanted.x) << wanted.text;
    // SVG counts from the baseline, the layout from the top of a capital.
    EXPECT_EQ(integer(texts[i], "y"), wanted.y + text_ascent(wanted.style)) << wanted.text;
    EXPECT_EQ(integer(texts[i], "textLength"), text_width(wanted.text.size(), wanted.style));
    EXPECT_EQ(texts[i].attributes.count("font-weight"), wanted.style.bold ? 1u : 0u);
  }
}

TEST(MatrixSvg, ShowsPixelForPixelTheImagesOfTheLayout) {
  TemporaryFolder folder;
  const auto pictures = gallery_pictures(4, 13);
  const Page layout = layout_page(pictures, {});
  Canvas page(layout.width, layout.height, layout.background);
  for (const PageImage& image : layout.images) page.draw(image.image, image.area);
  const auto images = named(svg_of(pictures), "image");
  ASSERT_EQ(images.size(), pictures.size() + 1);
  const std::string scheme = "data:image/png;base64,";
  for (const XmlElement& image : images) {
    const std::string link = image.attributes.at("href");
    ASSERT_EQ(link.substr(0, scheme.size()), scheme);
    write_file(folder / "image.png", decode_base64(link.substr(scheme.size())));
    const Canvas embedded = read_png(folder / "image.png");
    ASSERT_EQ(embedded.width(), integer(image, "width"));
    ASSERT_EQ(embedded.height(), integer(image, "height"));
    for (int64_t y = 0; y < embedded.height(); ++y)
      for (int64_t x = 0; x < embedded.width(); ++x)
        ASSERT_EQ(embedded.at(x, y), page.at(integer(image, "x") + x, integer(image, "y") + y));
  }
}

TEST(MatrixSvg, LabelsKeepTheirLettersAndColumnsReadUpwards) {
  const auto texts = named(svg_of({labelled_picture(8, 8)}), "text");
  for (const std::string label : {"<&>", "na\xc3\xafve", "\xe6\xb0\xb4\xe6\xb1\xa7"}) {
    int64_t level = 0, turned = 0;
    for (const XmlElement& text : texts) {
      if (text.text != label) continue;
      const auto turn = text.attributes.find("transform");
      if (turn == text.attributes.end()) {
        ++level;
        continue;
      }
      ++turned;
      EXPECT_EQ(turn->second,
                concat("rotate(-90 ", integer(text, "x"), " ", integer(text, "y"), ")"));
    }
    EXPECT_EQ(level, 1) << label;
    EXPECT_EQ(turned, 1) << label;
  }
}

TEST(MatrixSvg, AnUnwritablePathIsNamed) {
  TemporaryFolder folder;
  EXPECT_THROW_WITH(write_svg(folder / "missing/m.svg", {wave_picture(2, 2)}), Error,
                    "missing/m.svg: cannot be created");
}

}  // namespace
}  // namespace hydramix
