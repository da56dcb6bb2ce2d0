// SPDX-License-Identifier: Apache-2.0
#include "glue/recipes.h"

#include <algorithm>
#include <map>

#include "base/spelling.h"
#include "config/recipe_texts.h"
#include "glue/sentence_task.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

const std::string kFolder = "glue/";

struct GlueRecipe {
  TaskRecipe all;
  std::map<std::string, TaskRecipe> tasks;  // by key

  GlueRecipe() {
    for (const auto& task : sentence_tasks()) tasks[key_of(task)];
    tasks[kOwnFiles];
  }
  // "sst2" for SST-2.
  static std::string key_of(const SentenceTask& task) {
    std::string key;
    for (const char c : task.name)
      if (c != '-') key += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return key;
  }
  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("all", self.all, "every task, where the task itself says nothing else");
    for (auto& [key, task] : self.tasks)
      v(key, task, key == kOwnFiles ? "a user's own files" : "the task");
  }
};

// `read` fills a recipe from a file or text. It runs twice, because each task starts from the
// values of `all`.
template <class Read>
GlueRecipe recipe_read(const Read& read) {
  GlueRecipe first, second;
  read(first);
  second.all = first.all;
  for (auto& [key, task] : second.tasks) task = first.all;
  read(second);
  return second;
}

GlueRecipe opened_recipe(const std::string& name) {
  if (name.ends_with(".yaml"))
    return recipe_read([&](GlueRecipe& recipe) { load_yaml(recipe, name); });
  if (const auto found = recipe_texts().find(kFolder + name); found != recipe_texts().end())
    return recipe_read([&](GlueRecipe& recipe) {
      parse_yaml(recipe, found->second, "recipes/" + found->first + ".yaml");
    });
  throw UsageError(concat("recipe: there is no '", name, "'; expected one of ",
                          join(glue_recipes()), ", or a file that ends in .yaml.",
                          did_you_mean(name, glue_recipes())));
}

}  // namespace

const std::vector<std::string>& glue_recipes() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const auto& [name, text] : recipe_texts())
      if (name.starts_with(kFolder)) all.push_back(name.substr(kFolder.size()));
    return all;
  }();
  return names;
}

TaskRecipe glue_recipe(const std::string& recipe, const std::string& task) {
  const auto key = task == kOwnFiles ? task : GlueRecipe::key_of(sentence_task(task));
  auto found = opened_recipe(recipe).tasks.at(key);
  for (const auto& [name, stated] :
       {std::pair{"rate", found.rate > 0}, std::pair{"epochs", found.epochs > 0},
        std::pair{"batch", found.batch > 0}, std::pair{"max_length", found.max_length > 0}})
    HYDRAMIX_CHECK_USAGE(stated, "recipe ", recipe, ": states no ", name, " for ", task, ". Add ",
                         key, ".", name, " or all.", name, " to it.");
  return found;
}

}  // namespace hydramix
