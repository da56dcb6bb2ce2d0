// SPDX-License-Identifier: Apache-2.0
#include "train/image_report.h"

#include <algorithm>
#include <numeric>
#include <span>

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "view/svg.h"

namespace hydramix {
namespace {

// The answers for the images of a class.
std::span<const double> answers_for(const ImageCounts& counts, std::size_t label,
                                    std::size_t classes) {
  return std::span(counts.confusion).subspan(label * classes, classes);
}

double images_of(std::span<const double> answers) {
  return std::accumulate(answers.begin(), answers.end(), 0.0);
}

// Empty for a class without images.
std::string share_text(std::span<const double> answers, std::size_t label) {
  const double images = images_of(answers);
  return images > 0 ? formatted("%.4f", answers[label] / images) : "";
}

// The name of a class as a cell of a table.
std::string class_cell(std::string name) {
  std::replace_if(
      name.begin(), name.end(), [](char c) { return c == '\t' || c == '\n'; }, ' ');
  return name;
}

}  // namespace

std::string class_table(const std::vector<std::string>& classes, const ImageCounts& counts,
                        const ImageCounts& average) {
  const bool averaged = !average.confusion.empty();
  std::string table = "class\timages\ttop1";
  if (averaged) table += "\taverage_top1";
  table += "\ttaken_for\tshare\n";
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const auto answers = answers_for(counts, c, classes.size());
    const double images = images_of(answers);
    table += formatted("%s\t%.0f\t%s", class_cell(classes[c]), images, share_text(answers, c));
    if (averaged) table += "\t" + share_text(answers_for(average, c, classes.size()), c);
    std::vector<double> wrong(answers.begin(), answers.end());
    wrong[c] = 0;
    const auto most = std::max_element(wrong.begin(), wrong.end());
    table += *most > 0
                 ? formatted("\t%s\t%.4f\n",
                             class_cell(classes[static_cast<std::size_t>(most - wrong.begin())]),
                             *most / images)
                 : "\t\t\n";
  }
  return table;
}

std::string confusion_table(const std::vector<std::string>& classes, const ImageCounts& counts) {
  std::string table = "class";
  for (const auto& name : classes) table += "\t" + class_cell(name);
  table += "\n";
  for (std::size_t c = 0; c < classes.size(); ++c) {
    table += class_cell(classes[c]);
    for (const double count : answers_for(counts, c, classes.size()))
      table += formatted("\t%.0f", count);
    table += "\n";
  }
  return table;
}

void write_image_report(const std::filesystem::path& folder,
                        const std::vector<std::string>& classes, const ImageCounts& counts,
                        const ImageCounts& average) {
  write_file(folder / "classes.tsv", class_table(classes, counts, average));
  write_file(folder / "confusion.tsv", confusion_table(classes, counts));
  const auto n = static_cast<int64_t>(classes.size());
  MatrixPicture picture{formatted("confusion: top-1 %.2f %% of %.0f images",
                                  100 * counts.top1 / std::max(counts.images, 1.0), counts.images),
                        "rows: the class; columns: the answer, as a share of the class",
                        n,
                        n,
                        counts.confusion,
                        /*scale=*/1,
                        classes,
                        classes};
  for (std::size_t c = 0; c < classes.size(); ++c) {
    const double images = std::max(images_of(answers_for(counts, c, classes.size())), 1.0);
    for (std::size_t k = 0; k < classes.size(); ++k)
      picture.values[c * classes.size() + k] /= images;
  }
  write_svg(folder / "confusion.svg", {picture});
}

}  // namespace hydramix
