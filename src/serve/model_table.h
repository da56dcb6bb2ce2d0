// SPDX-License-Identifier: Apache-2.0
// The models of a server by name. A reload opens a model again and swaps it; requests that hold the
// old one are computed with it. Thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "serve/work.h"

namespace hydramix::serve {

struct ModelPlace {
  std::string name;
  std::filesystem::path folder;
};

// "NAME=FOLDER", or a folder whose last part (before /model) is the name. Throws a UsageError for
// two of the same name.
std::vector<ModelPlace> model_places(const std::vector<std::string>& arguments);

class ModelTable {
 public:
  // open(place) opens a model and warms it up; throws an Error.
  using Open = std::function<std::shared_ptr<ModelFacts>(const ModelPlace& place)>;
  ModelTable(std::vector<ModelPlace> places, Open open);

  // Opens all models into an empty table. Calls `stopped` before each; once it returns true, load()
  // returns false and the table stays empty.
  bool load(const std::function<bool()>& stopped = {});
  // Opens one model again, or all for an empty name, and returns their names. If opening one fails,
  // all old models stay. The old and the new models are in memory together. Reloads run one at a
  // time.
  std::vector<std::string> reload(const std::string& name);

  // The model of this name. For an empty name the first that `preferred` accepts, or else the
  // first. An HttpError if no model has the name, or none is loaded yet.
  std::shared_ptr<const ModelFacts> find(
      const std::string& name, const std::function<bool(const ModelFacts&)>& preferred = {}) const;
  std::vector<std::shared_ptr<const ModelFacts>> all() const;

 private:
  const std::vector<ModelPlace> places_;
  const Open open_;
  std::mutex reloading_;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<const ModelFacts>> models_;
};

}  // namespace hydramix::serve
