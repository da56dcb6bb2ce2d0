// SPDX-License-Identifier: Apache-2.0
// Measures first and checks the size of the page before any image is made, so that an absurd
// request costs no memory.
#include "view/matrix_plot.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "hydramix/error.h"
#include "view/page_parts.h"

namespace hydramix {
namespace {

using namespace page_parts;

constexpr Target kSingle{512, 1500};
constexpr int64_t kSingleNarrowest = 300, kSingleBarShortest = 96, kSingleBarGap = 20;
constexpr int64_t kLyingBarWidest = 240;

constexpr Target kGallery{172, 400};
constexpr int64_t kPixelGap = 8;  // between the pictures of a page of pixels
constexpr int64_t kGalleryNarrowest = 180, kGalleryBar = 240, kGalleryHeadingGap = 12;
constexpr int64_t kGalleryWidth = 1200, kGalleryColumns = 6;

// The image of a single picture with its labels and its bar, which stands at the right of the
// image. Where there are labels, the bar lies below, so that the page fits a narrow column.
struct SingleBody {
  Size size;
  LabelSpace labels;
  bool horizontal_bar = false;
  int64_t bar_width = 0, bar_height = 0;  // of the colours alone
  int64_t width = 0, height = 0;          // of everything
};

SingleBody measure_single(const MatrixPicture& picture, const PageOptions& options) {
  SingleBody body;
  body.size = measure(picture, kSingle, options.cell_pixels);
  body.labels = label_space(picture);
  body.horizontal_bar = picture.labelled();
  body.width = body.labels.left + body.size.width;
  body.height = body.labels.top + body.size.height;
  if (body.horizontal_bar) {
    body.width = std::max(body.width, kSingleNarrowest);
    body.bar_width = std::min(kLyingBarWidest, body.width - body.labels.left);
    body.bar_height = kBarThickness;
    body.height += kSingleBarGap + horizontal_bar_height();
  } else {
    std::size_t label = 0;
    for (const Tick& tick : scale_ticks(colour_scale(picture)))
      label = std::max(label, tick.label.size());
    body.bar_width = kBarThickness;
    body.bar_height = std::max<int64_t>(body.size.height, kSingleBarShortest);
    body.width +=
        kSingleBarGap + kBarThickness + 1 + kTick + kTickToLabel + text_width(label, kPlain);
    body.width = std::max(body.width, kSingleNarrowest);
    body.height = std::max(body.height, body.bar_height);
  }
  return body;
}

void add_single(Page& page, const MatrixPicture& picture, const SingleBody& body, int64_t top) {
  const double scale = colour_scale(picture);
  const Rect area{kMargin + body.labels.left, top + body.labels.top, body.size.width,
                  body.size.height};
  if (body.horizontal_bar)
    add_horizontal_bar(
        page, {area.x, area.y + area.height + kSingleBarGap, body.bar_width, body.bar_height},
        scale_ticks(scale));
  else
    add_vertical_bar(page,
                     {area.x + area.width + kSingleBarGap, area.y, body.bar_width, body.bar_height},
                     scale);
  add_image(page, area, matrix_image(picture, scale, body.size.block));
  add_labels(page, picture, body.size, area);
}

Page layout_single(const MatrixPicture& picture, const PageOptions& options) {
  const SingleBody body = measure_single(picture, options);
  const int64_t width = body.width;

  // A page title takes the heading; the picture's own then becomes the line below it.
  const std::string own = printable(picture.title), given = printable(options.title);
  const std::string heading = shorten(given.empty() ? own : given, width, kHeading);
  const std::string second = given.empty() ? "" : shorten(own, width, kStrong);
  const auto subtitle = wrap(printable(picture.subtitle), width, 2, kPlain);

  Page page;
  page.title = given.empty() ? own : given;
  int64_t y = kMargin;
  add_text(page, kMargin, y, heading, kHeading, kInk);
  if (!heading.empty()) y += text_height(kHeading) + 8;
  add_text(page, kMargin, y, second, kStrong, kInk);
  if (!second.empty()) y += kLinePitch + 2;
  for (const std::string& line : subtitle) {
    add_text(page, kMargin, y, line, kPlain, kMuted);
    y += kLinePitch;
  }
  if (!page.texts.empty()) y += kTextToImage;
  page.width = width + 2 * kMargin;
  page.height = y + body.height + kImageToCaption + text_height(kPlain) + kMargin;
  check_page_size(page);

  add_single(page, picture, body, y);
  add_text(page, kMargin, y + body.height + kImageToCaption,
           shorten(size_note(picture, body.size), width, kPlain), kPlain, kMuted);
  return page;
}

struct Cell {
  Size size;
  LabelSpace labels;
  double scale = 0;
  std::string title, caption;
  std::vector<std::string> subtitle;
};

std::vector<Cell> fit_cells(const std::vector<MatrixPicture>& pictures,
                            const std::vector<Size>& sizes, int64_t width) {
  std::vector<Cell> cells;
  for (std::size_t i = 0; i < pictures.size(); ++i) {
    const MatrixPicture& picture = pictures[i];
    const double scale = colour_scale(picture);
    std::string caption = scale_note(picture) + ", " + size_note(picture, sizes[i]);
    // Where room is short, a size that is nothing special is the first to go.
    const bool special = sizes[i].block > 1 || count_not_finite(picture) > 0;
    if (!special && text_width(caption.size(), kPlain) > width) caption = scale_note(picture);
    cells.push_back(
        {sizes[i], label_space(picture), scale, shorten(printable(picture.title), width, kStrong),
         shorten(caption, width, kPlain), wrap(printable(picture.subtitle), width, 2, kPlain)});
  }
  return cells;
}

// As many columns as make a page of about 3 x 2 cells and fit its width, then as few as the same
// number of rows needs. Up to four stand in one row.
int64_t gallery_columns(int64_t count, int64_t cell_width) {
  const int64_t fitting = (kGalleryWidth - 2 * kMargin + kGapX) / (cell_width + kGapX);
  const int64_t landscape = std::llround(std::sqrt(1.5 * static_cast<double>(count)));
  const int64_t wanted = std::min({std::max<int64_t>(4, landscape), kGalleryColumns, count});
  const int64_t columns = std::clamp<int64_t>(fitting, 1, wanted);
  return divide_up(count, divide_up(count, columns));
}

// The page title and the colour bar: beside each other where both fit, one below the other
// otherwise. Returns where the header ends.
int64_t add_gallery_header(Page& page, int64_t width) {
  const int64_t bar = std::min(kGalleryBar, width);
  const int64_t beside = width - bar - kGapX;
  const bool fits = page.title.empty() || text_width(page.title.size(), kHeading) <= beside;
  add_text(page, kMargin, kMargin, shorten(page.title, width, kHeading), kHeading, kInk);
  const int64_t y = fits ? kMargin : kMargin + text_height(kHeading) + kGalleryHeadingGap;
  add_horizontal_bar(page, {kMargin + width - bar, y, bar, kBarThickness},
                     {{0.0, "-scale"}, {0.5, "0"}, {1.0, "+scale"}});
  return y + horizontal_bar_height();
}

Page layout_gallery(const std::vector<MatrixPicture>& pictures, const PageOptions& options) {
  const auto count = static_cast<int64_t>(pictures.size());
  int64_t cell_width = kGalleryNarrowest;
  std::vector<Size> sizes;
  for (const MatrixPicture& picture : pictures) {
    sizes.push_back(measure(picture, kGallery, options.cell_pixels));
    cell_width = std::max(cell_width, label_space(picture).left + sizes.back().width);
  }
  const std::vector<Cell> cells = fit_cells(pictures, sizes, cell_width);
  const int64_t columns =
      options.columns > 0 ? std::min(options.columns, count) : gallery_columns(count, cell_width);

  Page page;
  page.title = printable(options.title);
  page.width = columns * (cell_width + kGapX) - kGapX + 2 * kMargin;
  check_page_size(page);
  int64_t y = add_gallery_header(page, page.width - 2 * kMargin) + kGapY;

  std::vector<int64_t> row_y;          // top of each row of cells
  std::vector<std::size_t> row_lines;  // of its longest subtitle: matrices of a row stay level
  for (int64_t first = 0; first < count; first += columns) {
    std::size_t lines = 0;
    int64_t height = 0;
    for (int64_t i = first; i < std::min(count, first + columns); ++i) {
      const Cell& cell = cells[static_cast<std::size_t>(i)];
      lines = std::max(lines, cell.subtitle.size());
      height = std::max(height, cell.labels.top + cell.size.height);
    }
    row_y.push_back(y);
    row_lines.push_back(lines);
    y += kLinePitch + static_cast<int64_t>(lines) * kLinePitch + kTextToImage + height +
         kImageToCaption + text_height(kPlain) + kGapY;
  }
  page.height = y - kGapY + kMargin;
  check_page_size(page);

  for (std::size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const auto row = i / static_cast<std::size_t>(columns);
    const int64_t x = kMargin + static_cast<int64_t>(i) % columns * (cell_width + kGapX);
    y = row_y[row];
    add_text(page, x, y, cell.title, kStrong, kInk);
    for (std::size_t line = 0; line < cell.subtitle.size(); ++line)
      add_text(page, x, y + kLinePitch * static_cast<int64_t>(line + 1), cell.subtitle[line],
               kPlain, kMuted);
    y += kLinePitch * static_cast<int64_t>(1 + row_lines[row]) + kTextToImage;
    const Rect area{x + cell.labels.left, y + cell.labels.top, cell.size.width, cell.size.height};
    add_image(page, area, matrix_image(pictures[i], cell.scale, cell.size.block));
    add_labels(page, pictures[i], cell.size, area);
    add_text(page, x, area.y + area.height + kImageToCaption, cell.caption, kPlain, kMuted);
  }
  return page;
}

void check_request(const std::vector<MatrixPicture>& pictures, const PageOptions& options) {
  HYDRAMIX_CHECK(!pictures.empty(),
                 "matrix page: no pictures given, at least one expected. Name a matrix to draw.");
  HYDRAMIX_CHECK_USAGE(options.columns >= 0, "matrix page: ", options.columns,
                       " columns asked for; expected a positive number, or 0 to choose it.");
  HYDRAMIX_CHECK_USAGE(options.cell_pixels >= 0 && options.cell_pixels <= kLargestPage,
                       "matrix page: ", options.cell_pixels,
                       " pixels an entry asked for; expected 1 to ", kLargestPage,
                       ", or 0 to choose them.");
  for (const MatrixPicture& picture : pictures) check_picture(picture);
}

}  // namespace

Rect PageText::area() const {
  const int64_t length = text_width(text_columns(text), style), thickness = text_height(style);
  return upwards ? Rect{x, y, thickness, length} : Rect{x, y, length, thickness};
}

Page layout_pixels(const std::vector<MatrixPicture>& pictures, const PageOptions& options) {
  check_request(pictures, options);
  const auto count = static_cast<int64_t>(pictures.size());
  int64_t cell_width = 0;
  std::vector<Size> sizes;
  for (const MatrixPicture& picture : pictures) {
    sizes.push_back(measure(picture, count == 1 ? kSingle : kGallery, options.cell_pixels));
    cell_width = std::max(cell_width, sizes.back().width);
  }
  const int64_t columns =
      options.columns > 0 ? std::min(options.columns, count) : gallery_columns(count, cell_width);
  Page page;
  page.width = columns * (cell_width + kPixelGap) - kPixelGap;
  std::vector<Rect> areas;
  int64_t y = 0;
  for (int64_t first = 0; first < count; first += columns) {
    for (int64_t i = first; i < std::min(count, first + columns); ++i) {
      const Size& size = sizes[static_cast<std::size_t>(i)];
      areas.push_back({(i - first) * (cell_width + kPixelGap), y, size.width, size.height});
      page.height = std::max(page.height, y + size.height);
    }
    y = page.height + kPixelGap;
  }
  check_page_size(page);
  for (std::size_t i = 0; i < pictures.size(); ++i)
    page.images.push_back(
        {areas[i], matrix_image(pictures[i], colour_scale(pictures[i]), sizes[i].block)});
  return page;
}

Page layout_page(const std::vector<MatrixPicture>& pictures, const PageOptions& options) {
  check_request(pictures, options);
  return pictures.size() == 1 ? layout_single(pictures.front(), options)
                              : layout_gallery(pictures, options);
}

}  // namespace hydramix
