// SPDX-License-Identifier: Apache-2.0
#include "view/svg_elements.h"

#include <fmt/format.h>

#include "view/text.h"
#include "view/theme.h"
#include "view/xml_text.h"

namespace hydramix {

std::string svg_text(double x, double y, TextAnchor anchor, const std::string& words, Rgb colour,
                     bool bold) {
  if (words.empty()) return "";
  const char* names[] = {"start", "middle", "end"};
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\"{}>{}</text>\n",
                     x, y, names[static_cast<int>(anchor)], hex(colour),
                     bold ? " font-weight=\"bold\"" : "", xml_escaped(printable(words)));
}

std::string svg_line(double x1, double y1, double x2, double y2, const std::string& style) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" {}/>\n", x1, y1,
                     x2, y2, style);
}

std::string svg_chart(double width, double height, const std::string& title,
                      const std::string& elements) {
  const std::string body =
      fmt::format("<rect width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\" fill=\"{}\"/>\n", width,
                  height, hex(kPaper)) +
      elements;
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:.0f}\" height=\"{1:.0f}\" "
             "viewBox=\"0 0 {0:.0f} {1:.0f}\" role=\"img\" font-size=\"13\" "
             "font-family=\"system-ui, sans-serif\">\n<title>{2}</title>\n",
             width, height, xml_escaped(printable(title))) +
         dark_style(body) + body + "</svg>\n";
}

}  // namespace hydramix
