// SPDX-License-Identifier: Apache-2.0
// A pixel is covered by half the width of the pen, plus a half, minus its distance from the nearest
// line, limited to 0..1.
#include "view/stroke_font.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

namespace hydramix {
namespace {

// The glyphs of ' ' to '~'. Lines are separated by blanks; each is a list of points, two digits
// each: x from 0 at the left to 4, y from 0 at the bottom of a descender to 9 at the top of a
// capital. The baseline is y = 2. A point given twice is a dot.
constexpr std::array<const char*, 95> kGlyphs = {
    "",                                     //
    "2924 2222",                            // !
    "1917 3937",                            // "
    "1218 3238 0646 0444",                  // #
    "483919080716364543321203 2921",        // $
    "0249 0919180809 3343423233",           // %
    "420708192938370503122244",             // &
    "2927",                                 // '
    "39282332",                             // (
    "19282312",                             // )
    "2824 0745 0547",                       // *
    "2723 0545",                            // +
    "222110",                               // ,
    "0545",                                 // -
    "2222",                                 // .
    "0249",                                 // /
    "193948433212030819 1338",              // 0
    "072922 0242",                          // 1
    "08193948460242",                       // 2
    "08193948473616 364543321203",          // 3
    "32390444",                             // 4
    "490906364543321203",                   // 5
    "483919080312324345361605",             // 6
    "094912",                               // 7
    "163647483919080716 1605031232434536",  // 8
    "463515060819394843321203",             // 9
    "2626 2222",                            // :
    "2626 222110",                          // ;
    "470543",                               // <
    "0646 0444",                            // =
    "074503",                               // >
    "08193948472524 2222",                  // ?
    "36262434 3634434839190803 1232",       // @
    "020719394742 0545",                    // A
    "02093948473606 3645433202",            // B
    "4839190803123243",                     // C
    "02093948433202",                       // D
    "49090242 0636",                        // E
    "490902 0636",                          // F
    "48391908031232434626",                 // G
    "0209 4249 0646",                       // H
    "1939 2922 1232",                       // I
    "4943321203",                           // J
    "0209 4905 1642",                       // K
    "090242",                               // L
    "0209264942",                           // M
    "02094249",                             // N
    "193948433212030819",                   // O
    "02093948463505",                       // P
    "193948433212030819 2442",              // Q
    "02093948463505 2542",                  // R
    "483919080716364543321203",             // S
    "0949 2922",                            // T
    "090312324349",                         // U
    "092249",                               // V
    "0912263249",                           // W
    "0249 0942",                            // X
    "092649 2622",                          // Y
    "09490242",                             // Z
    "39292232",                             // [
    "0942",                                 // backslash
    "19292212",                             // ]
    "072947",                               // ^
    "0141",                                 // _
    "1927",                                 // `
    "4742 4637170603123243",                // a
    "0902 0617374643321203",                // b
    "4637170603123243",                     // c
    "4942 4637170603123243",                // d
    "05454637170603123243",                 // e
    "49392822 0747",                        // f
    "4741301001 4637170603123243",          // g
    "0902 0617374642",                      // h
    "172722 1232 2929",                     // i
    "2737312010 3939",                      // j
    "0902 4703 1442",                       // k
    "192922 1232",                          // l
    "0702 06172622 26374642",               // m
    "0702 0617374642",                      // n
    "173746433212030617",                   // o
    "0700 0617374643321203",                // p
    "4740 4637170603123243",                // q
    "0702 06173746",                        // r
    "46371706153443321203",                 // s
    "29233242 0747",                        // t
    "0703123243 4742",                      // u
    "072247",                               // v
    "0712253247",                           // w
    "0247 0742",                            // x
    "0722 471000",                          // y
    "07470242",                             // z
    "39282615242332",                       // {
    "2920",                                 // |
    "19282635242312",                       // }
    "05163546",                             // ~
};

struct Point {
  double x, y;
};
struct Segment {
  Point from, to;
};

// In pixels, y downwards from the top of a capital. An em has ten units.
std::vector<Segment> glyph_segments(char letter, double unit) {
  if (letter < ' ' || letter > '~') letter = '?';
  std::vector<Segment> segments;
  const std::string_view glyph = kGlyphs[static_cast<std::size_t>(letter - ' ')];
  const auto point = [&](std::size_t i) {
    return Point{(glyph[i] - '0') * unit, ('9' - glyph[i + 1]) * unit};
  };
  for (std::size_t i = 0; i + 3 < glyph.size();) {
    if (glyph[i + 2] == ' ') {
      i += 3;
      continue;
    }
    segments.push_back({point(i), point(i + 2)});
    i += 2;
  }
  return segments;
}

double distance(const Point& p, const Segment& s) {
  const double dx = s.to.x - s.from.x, dy = s.to.y - s.from.y, length = dx * dx + dy * dy;
  double t = 0;
  if (length > 0)
    t = std::clamp(((p.x - s.from.x) * dx + (p.y - s.from.y) * dy) / length, 0.0, 1.0);
  return std::hypot(p.x - s.from.x - t * dx, p.y - s.from.y - t * dy);
}

Rgb covered(Rgb below, Rgb colour, double share) {
  const auto mixed = [&](uint8_t from, uint8_t to) {
    return static_cast<uint8_t>(std::lround(from + share * (to - from)));
  };
  return {mixed(below.r, colour.r), mixed(below.g, colour.g), mixed(below.b, colour.b)};
}

}  // namespace

void draw_text(Canvas& canvas, int64_t x, int64_t y, std::string_view text, TextStyle style,
               Rgb colour) {
  const double unit = static_cast<double>(style.size) / 10;
  const double pen = unit * (style.bold ? 1.25 : 0.85);
  const auto margin = static_cast<int64_t>(std::ceil(pen));
  const auto wide = static_cast<int64_t>(std::ceil(4 * unit)) + margin;
  const auto high = static_cast<int64_t>(std::ceil(9 * unit)) + margin;
  for (std::size_t i = 0; i < text.size(); ++i) {
    // Letters begin between pixels, as the widths of text.h add up.
    const double left = static_cast<double>(x) +
                        0.6 * static_cast<double>(style.size) * static_cast<double>(i) + unit;
    const auto first = static_cast<int64_t>(std::floor(left));
    const auto segments = glyph_segments(text[i], unit);
    for (int64_t py = y - margin; py <= y + high; ++py)
      for (int64_t px = first - margin; px <= first + wide; ++px) {
        if (px < 0 || py < 0 || px >= canvas.width() || py >= canvas.height()) continue;
        const Point centre{static_cast<double>(px) + 0.5 - left,
                           static_cast<double>(py - y) + 0.5 - pen / 2};
        double nearest = 1e9;
        for (const auto& segment : segments) nearest = std::min(nearest, distance(centre, segment));
        const double share = std::clamp(pen / 2 + 0.5 - nearest, 0.0, 1.0);
        if (share > 0) canvas.set(px, py, covered(canvas.at(px, py), colour, share));
      }
  }
}

}  // namespace hydramix
