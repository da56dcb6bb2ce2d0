// SPDX-License-Identifier: Apache-2.0
#include "reproduce/report_matrices.h"

#include "base/formatted.h"
#include "hydramix/error.h"
#include "images/image_data.h"
#include "reproduce/learned_matrices.h"
#include "view/png.h"
#include "view/xml_text.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAboutMatrices =
    "of each layer shown, the head that reads other positions most. A row is the position that is "
    "computed, a column the position that it reads. Red adds, blue subtracts.";

// The input of all models of the table: the first image of the validation set, or a drawn one.
Image shown_image(const DataFolders& data) {
  constexpr int64_t kSide = 32;
  auto drawn = draw_image({1, ImageSplit::kValidation, 0}, {kSide, kSide});
  if (data.images.empty()) return drawn;
  ImageDataOptions options;
  options.path = data.images;
  options.held_out = data.images_held_out;
  try {
    return open_image_splits(options).validation->load(0);
  } catch (const Error&) {
    return drawn;  // it is damaged, or was moved since; the numbers do not need it
  }
}

Canvas image_canvas(const Image& image) {
  Canvas canvas(image.width, image.height, {255, 255, 255});
  for (int64_t y = 0; y < image.height; ++y)
    for (int64_t x = 0; x < image.width; ++x) {
      const uint8_t* rgb = image.pixel(y, x);
      canvas.set(x, y, {rgb[0], rgb[1], rgb[2]});
    }
  return canvas;
}

std::string matrices_figure(const std::string& title, const std::vector<MatrixPicture>& pictures) {
  std::string images, places;
  for (const auto& picture : pictures) {
    images += formatted("<img loading=\"lazy\" src=\"%s\" alt=\"Matrix of %s, %s\">",
                        png_data_uri(matrix_image(picture, colour_scale(picture), 1)),
                        xml_escaped(title), xml_escaped(picture.title));
    places += (places.empty() ? "" : "; ") + picture.title;
  }
  return "<figure><div>" + images + "</div><figcaption>" + xml_escaped(title) +
         "<br><span class=\"muted\">" + xml_escaped(places) + "</span></figcaption></figure>\n";
}

// A model that was moved or damaged after its run has no picture; its numbers stay.
std::string row_figure(const Report& report, const ReportRow& row, const Image* image) {
  if (row.row.name.empty()) return "";
  const auto model = row_folder(report.plan, row.row.name, 1) /
                     (image != nullptr ? "images" : "pretrain") / "model";
  if (!fs::exists(model)) return "";
  try {
    const auto pictures =
        image != nullptr ? learned_matrices(model, *image) : learned_matrices(model);
    return pictures.empty() ? "" : matrices_figure(row_title(row), pictures);
  } catch (const Error& error) {
    return "<figure><figcaption>" + xml_escaped(row_title(row)) + "<br><span class=\"muted\">" +
           xml_escaped(error.what()) + "</span></figcaption></figure>\n";
  }
}

}  // namespace

std::string row_title(const ReportRow& row) {
  return row.row.mark == "DD" ? row.row.label + " DD" : row.row.label;
}

std::string matrices_html(const Report& report, const ReportTable& table) {
  const bool of_images = table.table->of_images();
  const auto image = of_images ? shown_image(report.plan.data) : Image();
  std::string figures;
  for (const auto& row : table.rows)
    figures += row_figure(report, row, of_images ? &image : nullptr);
  if (figures.empty()) return "";
  std::string about = "What the trained models of seed 1 apply to one ";
  about += of_images ? "image, whose patches are the positions: " : "sentence: ";
  if (of_images)
    figures = formatted(
                  "<figure><div class=\"photo\"><img src=\"%s\" alt=\"The image\"></div>"
                  "<figcaption>The image</figcaption></figure>\n",
                  png_data_uri(image_canvas(image))) +
              figures;
  return "<h3>Learned matrices</h3>\n<p class=\"muted\">" + about + kAboutMatrices +
         "</p>\n<div class=\"matrices\">\n" + figures + "</div>\n";
}

}  // namespace hydramix
