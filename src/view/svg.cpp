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

std::string place(const Rect& area) {
  return fmt::format(R"(x="{}" y="{}" width="{}" height="{}")", area.x, area.y, area.width,
                     area.height);
}

std::string image_element(const PageImage& image) {
  Canvas magnified(image.area.width, image.area.height, {});
  magnified.draw(image.image, {0, 0, image.area.width, image.area.height});
  return fmt::format(
      "<image {}{} preserveAspectRatio=\"none\" style=\"image-rendering: pixelated\" "
      "href=\"{}\"/>\n",
      image.photo ? "class=\"photo\" " : "", place(image.area), png_data_uri(magnified));
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

std::string svg_page(const Page& page) {
  std::string body = fmt::format("<rect {} rx=\"6\" fill=\"{}\"/>\n",
                                 place({0, 0, page.width, page.height}), hex(page.background));
  for (const PageBox& box : page.boxes)
    body += fmt::format("<rect {} fill=\"{}\"/>\n", place(box.area), hex(box.colour));
  for (const PageImage& image : page.images) body += image_element(image);
  for (const PageText& text : page.texts) body += text_element(text);
  std::string head = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0}\" height=\"{1}\" "
      "viewBox=\"0 0 {0} {1}\" role=\"img\" font-family=\"ui-monospace, Menlo, Consolas, "
      "'DejaVu Sans Mono', monospace\">\n",
      page.width, page.height);
  if (!page.title.empty()) head += fmt::format("<title>{}</title>\n", xml_escaped(page.title));
  return head + dark_style(body) + body + "</svg>\n";
}

std::string svg_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options) {
  return svg_page(layout_page(pictures, options));
}

void write_svg(const std::filesystem::path& path, const Page& page) {
  write_file(path, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n" + svg_page(page));
}

void write_svg(const std::filesystem::path& path, const std::vector<MatrixPicture>& pictures,
               const PageOptions& options) {
  write_svg(path, layout_page(pictures, options));
}

}  // namespace hydramix
