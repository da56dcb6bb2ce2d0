// SPDX-License-Identifier: Apache-2.0
// Every <text> carries its textLength, which fits the viewer's monospaced font to the width that
// the layout assumed, so that nothing overlaps.
#include "view/svg.h"

#include <cstdint>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "base/atomic_file.h"
#include "view/png.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

std::string base64(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t given = bytes.size() - i < 3 ? bytes.size() - i : 3;
    uint32_t word = 0;
    for (std::size_t k = 0; k < 3; ++k)
      word = word << 8 | (k < given ? static_cast<unsigned char>(bytes[i + k]) : 0u);
    for (std::size_t k = 0; k < 4; ++k)
      out.push_back(k <= given ? kDigits[word >> (18 - 6 * k) & 63u] : '=');
  }
  return out;
}

std::string place(const Rect& area) {
  return fmt::format(R"(x="{}" y="{}" width="{}" height="{}")", area.x, area.y, area.width,
                     area.height);
}

std::string image_element(const PageImage& image) {
  Canvas magnified(image.area.width, image.area.height, {});
  magnified.draw(image.image, {0, 0, image.area.width, image.area.height});
  return fmt::format(
      "<image {} preserveAspectRatio=\"none\" style=\"image-rendering: pixelated\" "
      "href=\"data:image/png;base64,{}\"/>\n",
      place(image.area), base64(encode_png(magnified)));
}

std::string text_element(const PageText& text) {
  const int64_t length = text_width(text_columns(text.text), text.style);
  int64_t x = text.x, y = text.y + text_ascent(text.style);  // where the baseline begins
  std::string turned;
  if (text.upwards) {
    x = text.x + text_ascent(text.style);
    y = text.y + length;
    turned = fmt::format(" transform=\"rotate(-90 {} {})\"", x, y);
  }
  return fmt::format(
      "<text x=\"{}\" y=\"{}\"{} font-size=\"{}\"{} fill=\"{}\" textLength=\"{}\" "
      "lengthAdjust=\"spacingAndGlyphs\" xml:space=\"preserve\">{}</text>\n",
      x, y, turned, text.style.size, text.style.bold ? " font-weight=\"bold\"" : "",
      hex(text.colour), length, xml_escaped(text.text));
}

}  // namespace

std::string svg_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options) {
  const Page page = layout_page(pictures, options);
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" font-family=\"ui-monospace, Menlo, Consolas, 'DejaVu Sans Mono', "
      "monospace\">\n",
      page.width, page.height);
  if (!page.title.empty()) out += fmt::format("<title>{}</title>\n", xml_escaped(page.title));
  out += fmt::format("<rect {} fill=\"{}\"/>\n", place({0, 0, page.width, page.height}),
                     hex(page.background));
  for (const PageBox& box : page.boxes)
    out += fmt::format("<rect {} fill=\"{}\"/>\n", place(box.area), hex(box.colour));
  for (const PageImage& image : page.images) out += image_element(image);
  for (const PageText& text : page.texts) out += text_element(text);
  return out + "</svg>\n";
}

void write_svg(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options) {
  write_file(path, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + svg_page(pictures, options));
}

}  // namespace hydramix
