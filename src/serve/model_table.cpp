// SPDX-License-Identifier: Apache-2.0
#include "serve/model_table.h"

#include <algorithm>

#include "base/quotes.h"
#include "base/spelling.h"
#include "serve/http_error.h"

namespace hydramix::serve {

std::vector<ModelPlace> model_places(const std::vector<std::string>& arguments) {
  std::vector<ModelPlace> places;
  for (const auto& argument : arguments) {
    const auto equals = argument.find('=');
    ModelPlace place;
    if (equals != std::string::npos && !std::filesystem::exists(argument)) {
      place = {argument.substr(0, equals), argument.substr(equals + 1)};
    } else {
      place.folder = argument;
      auto path = std::filesystem::absolute(place.folder).lexically_normal();
      if (!path.has_filename()) path = path.parent_path();  // "runs/tiny/"
      if (path.filename() == "model") path = path.parent_path();
      place.name = path.filename().string();
    }
    HYDRAMIX_CHECK_USAGE(!place.name.empty() && !place.folder.empty(), "serve: '", argument,
                         "' names no model; expected a folder or NAME=FOLDER.");
    for (const auto& other : places)
      HYDRAMIX_CHECK_USAGE(other.name != place.name, "serve: two models are called '", place.name,
                           "' (", other.folder.string(), " and ", place.folder.string(),
                           "). Give one another name: NAME=FOLDER.");
    places.push_back(std::move(place));
  }
  return places;
}

ModelTable::ModelTable(std::vector<ModelPlace> places, Open open)
    : places_(std::move(places)), open_(std::move(open)) {}

bool ModelTable::load(const std::function<bool()>& stopped) {
  std::vector<std::shared_ptr<const ModelFacts>> models;
  for (const auto& place : places_) {
    if (stopped && stopped()) return false;
    models.push_back(open_(place));
  }
  const std::lock_guard lock(mutex_);
  models_ = std::move(models);
  return true;
}

std::vector<std::string> ModelTable::reload(const std::string& name) {
  const std::lock_guard one_at_a_time(reloading_);
  find(name);                                                       // throws where there is none
  std::vector<std::shared_ptr<ModelFacts>> opened(places_.size());  // null: not asked for
  for (std::size_t i = 0; i < places_.size(); ++i)
    if (name.empty() || places_[i].name == name) opened[i] = open_(places_[i]);
  std::vector<std::string> names;
  const std::lock_guard lock(mutex_);
  for (std::size_t i = 0; i < places_.size(); ++i) {
    if (!opened[i]) continue;
    opened[i]->revision = models_[i]->revision + 1;
    models_[i] = std::move(opened[i]);
    names.push_back(places_[i].name);
  }
  return names;
}

std::shared_ptr<const ModelFacts> ModelTable::find(
    const std::string& name, const std::function<bool(const ModelFacts&)>& preferred) const {
  const std::lock_guard lock(mutex_);
  if (models_.empty())
    throw HttpError(503, "unavailable", "the models are being loaded. GET /ready says when.");
  if (name.empty()) {
    for (const auto& model : models_)
      if (preferred && preferred(*model)) return model;
    return models_.front();
  }
  std::vector<std::string> known;
  for (const auto& model : models_) {
    if (model->name == name) return model;
    known.push_back(model->name);
  }
  throw not_found("there is no model ", in_quotes(clipped(name, 80)), "; this server has ",
                  join(known), ".");
}

std::vector<std::shared_ptr<const ModelFacts>> ModelTable::all() const {
  const std::lock_guard lock(mutex_);
  return models_;
}

}  // namespace hydramix::serve
