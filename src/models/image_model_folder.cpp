// SPDX-License-Identifier: Apache-2.0
// Folders of image models.
#include <algorithm>

#include "base/add_missing.h"
#include "base/json_reader.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "models/folder_files.h"
#include "models/model_config.h"
#include "models/size_check.h"

namespace hydramix {
namespace {

constexpr const char* kImagesKey = "images";

// `origin` is the start of the error message.
void check_image_task(const std::string& origin, const ImageModelOptions& model,
                      const ImageTask& task) {
  const auto& classes = task.classes;
  HYDRAMIX_CHECK(std::ssize(classes) == model.classes, origin, ": ", classes.size(), " names for ",
                 model.classes, " classes; expected one for each.");
  for (auto name = classes.begin(); name != classes.end(); ++name)
    HYDRAMIX_CHECK(std::find(classes.begin(), name, *name) == name, origin, ": the class ",
                   in_quotes(*name), " stands twice. Give every class a name of its own.");
  HYDRAMIX_CHECK(task.means.size() == 3 && task.deviations.size() == 3 &&
                     *std::min_element(task.deviations.begin(), task.deviations.end()) > 0,
                 origin,
                 ": means and deviations are three numbers each, of red, green and blue, "
                 "and deviations are above 0.");
}

// A config cannot ask for more memory than its weights take.
void check_image_memory(const std::filesystem::path& folder, const ImageModelOptions& options) {
  const auto& mlp = options.mlp;
  double rows = 3.0 * static_cast<double>(options.patch) * static_cast<double>(options.patch) +
                static_cast<double>(options.classes);
  if (options.positions) rows += static_cast<double>(options.length());
  if (mlp.kind != "none")
    rows += 2 * static_cast<double>(options.layers) * static_cast<double>(mlp.width) /
            static_cast<double>(mlp.blocks);
  check_size(options.block, rows, static_cast<double>(options.layers), weights_held(folder),
             config_path(folder).string());
}

}  // namespace

void save_image_model(const std::filesystem::path& folder, const ImageModel& model,
                      const ImageTask& task) {
  check_image_task("save_image_model: " + folder.string(), model->options(), task);
  auto config = config_head();
  config[kImageModelKey] = to_json(model->options());
  config[kImagesKey] = to_json(task);
  save_folder(folder, *model, config, nullptr);
}

ImageModelFolder load_image_model(const std::filesystem::path& folder) {
  const auto path = config_path(folder);
  const auto text = read_file(path, kConfigFile);
  auto config = parse_model_config(text, path, kImageModelKey);
  add_missing(config[kImageModelKey], later_layer_keys());
  HYDRAMIX_CHECK(config.contains(kImagesKey), path.string(), ": the key '", kImagesKey,
                 "' is missing. Copy the file again from where the model was saved.");
  const auto options = parse_section<ImageModelOptions>(config, kImageModelKey, path);
  ImageModelFolder result;
  static_cast<ImageTask&>(result) = parse_section<ImageTask>(config, kImagesKey, path);
  check_image_task(path.string() + ": images", options, result);
  check_image_memory(folder, options);
  result.model = ImageModel(options);
  fill_model(*result.model, read_weights(folder, text), weights_path(folder).string());
  return result;
}

}  // namespace hydramix
