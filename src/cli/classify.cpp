// SPDX-License-Identifier: Apache-2.0
// hydramix classify: the classes of images, with their probabilities.
#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>

#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/counted.h"
#include "base/formatted.h"
#include "base/interrupt.h"
#include "base/list_folder.h"
#include "cli/commands.h"
#include "cli/output_path.h"
#include "hydramix/error.h"
#include "hydramix/image_classifier.h"
#include "images/image_folder.h"
#include "train/train_images.h"

namespace hydramix {
namespace {

struct ClassifyOptions {
  std::string model;
  std::vector<std::string> images;
  int64_t top = 5;
  std::string weights = "last";
  std::string to = "text";
  std::string out;
  std::string device = "auto";
  int64_t batch = 32;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{},
      "folder of an image model (hydramix train-images makes it: OUT/model), or of its run");
    v("images", self.images, Positional{}, Required{},
      "JPEG and PNG files, or folders of them at any depth");
    v("top", self.top, Range{1, 1 << 20}, "classes to list, the most probable first");
    v("weights", self.weights, Choices{"last", "average"},
      "weights of a run to use: the last, or their average if the run kept one");
    v("to", self.to, Choices{"text", "jsonl"}, "lines of text, or JSON lines");
    v("out", self.out, "file to write, which appears when all is done; by default stdout");
    v("device", self.device, Choices{"auto", "cpu", "cuda"},
      "where to compute; auto: a GPU if any");
    v("batch", self.batch, Range{1, 1 << 20}, "images computed at once");
  }
};

namespace fs = std::filesystem;

// The images of a folder and of those in it, in the order of their paths. Links to folders are not
// followed: they may lead back.
void add_images(const fs::path& folder, std::vector<fs::path>& found) {
  for (const auto& entry : list_folder(folder)) {
    if (fs::is_directory(entry) && !fs::is_symlink(entry))
      add_images(entry, found);
    else if (names_image(entry) && fs::is_regular_file(entry))
      found.push_back(entry);
  }
}

// The files of an argument; those of a folder in the order of their paths.
std::vector<fs::path> image_files(const std::vector<std::string>& given) {
  std::vector<fs::path> files;
  for (const fs::path path : given) {
    HYDRAMIX_CHECK(fs::exists(path), path.string(),
                   ": does not exist; expected a JPEG or PNG file, or a folder of them.");
    if (!fs::is_directory(path)) {
      files.push_back(path);
      continue;
    }
    std::vector<fs::path> found;
    add_images(path, found);
    HYDRAMIX_CHECK(!found.empty(), path.string(),
                   ": holds no images; expected files that end in .jpg, .jpeg or .png.");
    files.insert(files.end(), found.begin(), found.end());
  }
  return files;
}

std::string as_line(const ClassifyOptions& options, const std::string& path,
                    const ImageClassifier::Answer& answer,
                    const std::vector<std::string>& classes) {
  std::vector<std::size_t> order(classes.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto top = std::min(static_cast<std::size_t>(options.top), order.size());
  std::partial_sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(top), order.end(),
                    [&](std::size_t a, std::size_t b) {
                      const auto &p = answer.probabilities[a], &q = answer.probabilities[b];
                      return p != q ? p > q : a < b;
                    });
  order.resize(top);
  if (options.to == "text") {
    std::string line = path;
    for (const auto k : order)
      line += formatted("\t%s %.2f %%", classes[k], 100 * answer.probabilities[k]);
    return line + "\n";
  }
  nlohmann::ordered_json line{{"image", path}, {"label", answer.label}};
  line["classes"] = nlohmann::ordered_json::array();
  for (const auto k : order)
    line["classes"].push_back({{"label", classes[k]}, {"probability", answer.probabilities[k]}});
  return line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

int classify(const ClassifyOptions& options) {
  const auto files = image_files(options.images);
  std::unique_ptr<AtomicFile> out;
  if (!options.out.empty()) {
    auto inputs = model_files(options.model);
    inputs.insert(inputs.end(), files.begin(), files.end());
    check_not_an_input("--out", options.out, inputs);
    out = std::make_unique<AtomicFile>(options.out);
  }
  const auto classifier = ImageClassifier::open(image_model_folder(options.model, options.weights),
                                                {options.device, options.batch});
  const Interrupt interrupt;
  for (std::size_t begin = 0; begin < files.size() && Interrupt::signal() == 0;) {
    const auto count = std::min(static_cast<std::size_t>(options.batch), files.size() - begin);
    const auto some = std::span(files).subspan(begin, count);
    const auto answers = classifier.classify(some);
    for (std::size_t i = 0; i < count; ++i) {
      const auto line = as_line(options, some[i].string(), answers[i], classifier.classes());
      if (out)
        out->write(line);
      else
        std::fputs(line.c_str(), stdout);
    }
    begin += count;
  }
  if (Interrupt::signal() != 0) return 128 + Interrupt::signal();
  if (out) out->commit();
  return 0;
}

}  // namespace

Command classify_command() {
  return make_command<ClassifyOptions>(
      "classify", "classify images", classify,
      "Examples:\n"
      "  hydramix classify runs/images/tiny photo.jpg\n"
      "  hydramix classify runs/images/tiny pictures --top 1 --to jsonl --out answers.jsonl\n"
      "Writes, in the order of the images, a line for each: the path, and the most probable "
      "classes with their probabilities. A file that is no image ends the command with an error "
      "that names it.");
}

}  // namespace hydramix
