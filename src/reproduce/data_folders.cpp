// SPDX-License-Identifier: Apache-2.0
#include "reproduce/data_folders.h"

#include <algorithm>
#include <filesystem>

#include "base/atomic_file.h"
#include "base/fnv.h"
#include "base/formatted.h"
#include "base/list_folder.h"
#include "data/token_shards.h"
#include "glue/sentences.h"
#include "hydramix/error.h"
#include "hydramix/tokenizer.h"
#include "images/image_data.h"
#include "images/image_layout.h"
#include "language/glue.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

// Rows of each built-in task: as many as a tiny model can learn from within a second or two.
constexpr GlueSizes kTinyTasks{250, 200, 1};
constexpr int64_t kTinyTaskSeed = 1;

bool has_shards(const fs::path& folder) { return fs::exists(folder / kIndexName); }

RowData text_in(const fs::path& folder) {
  RowData text;
  for (const char* name : {"vocab.txt", "tokenizer.json"})
    if (text.vocab.empty() && fs::is_regular_file(folder / name))
      text.vocab = (folder / name).string();
  for (const char* name : {"validation", "valid"})
    if (text.validation.empty() && has_shards(folder / name))
      text.validation = (folder / name).string();
  if (has_shards(folder / "train")) text.train = (folder / "train").string();
  if (text.vocab.empty() || text.validation.empty() || text.train.empty()) return {};
  return text;
}

std::vector<std::string> tasks_in(const fs::path& folder) {
  std::vector<std::string> tasks;
  for (const auto& task : sentence_tasks()) {
    if (!task.of_the_paper) continue;
    bool complete = fs::is_regular_file(folder / task.name / "train.tsv");
    for (const auto& part : task.dev)
      complete = complete && fs::is_regular_file(folder / task.name / (part + ".tsv"));
    if (complete) tasks.push_back(task.name);
  }
  return tasks;
}

// Records the folder under each kind of data that it holds; false if it holds none.
bool add_folder(DataFolders& data, const fs::path& folder) {
  bool known = false;
  if (const auto text = text_in(folder); !text.train.empty()) {
    HYDRAMIX_CHECK_USAGE(data.text.train.empty(), "--data: both ", data.text.train, " and ",
                         text.train, " are text. Give one of them.");
    data.text = text;
    known = true;
  }
  if (const auto tasks = tasks_in(folder); !tasks.empty()) {
    HYDRAMIX_CHECK_USAGE(data.glue.empty(), "--data: both ", data.glue, " and ", folder.string(),
                         " hold tasks of GLUE. Give one of them.");
    data.glue = folder.string();
    data.glue_tasks = tasks;
    known = true;
  }
  if (names_image_layout(folder)) {
    HYDRAMIX_CHECK_USAGE(data.images.empty(), "--data: both ", data.images, " and ",
                         folder.string(), " hold images. Give one of them.");
    data.images = folder.string();
    known = true;
  }
  return known;
}

}  // namespace

DataFolders find_data_folders(const std::vector<std::string>& folders) {
  DataFolders data;
  for (const auto& name : folders) {
    HYDRAMIX_CHECK_USAGE(fs::is_directory(name), "--data: '", name, "' is no folder.");
    bool known = add_folder(data, name);
    if (!known) {
      for (const auto& entry : list_folder(name))
        if (fs::is_directory(entry)) known = add_folder(data, entry) || known;
    }
    HYDRAMIX_CHECK_USAGE(
        known, "--data: '", name,
        "' holds no data of a known kind. Expected in it, or in a folder in it: train/ and "
        "validation/ with token shards (hydramix tokenize) beside vocab.txt or tokenizer.json; "
        "the tasks of GLUE (CoLA/train.tsv, CoLA/dev.tsv, ...); or images: train/ and val/ (or "
        "test/) with a folder for each class, the folders of the classes themselves, CIFAR-10's "
        "data_batch_1.bin, MNIST's train-images-idx3-ubyte.");
  }
  return data;
}

void open_text(DataFolders& data) {
  const auto tokenizer = Tokenizer::load(data.text.vocab);
  data.text.vocabulary = tokenizer.size();
  data.text_fingerprint = tokenizer.fingerprint();
  for (const auto& folder : {data.text.train, data.text.validation}) {
    const TokenShards shards(folder);
    shards.check_tokenizer(tokenizer.fingerprint(), data.text.vocab);
    data.text_fingerprint += "-" + shards.fingerprint();
  }
}

void open_glue(DataFolders& data) {
  uint64_t hash = kFnvStart;
  for (const auto& name : data.glue_tasks) {
    const auto& task = sentence_task(name);
    std::vector<std::string> parts{"train"};
    parts.insert(parts.end(), task.dev.begin(), task.dev.end());
    for (const auto& part : parts) {
      SentenceReader file(task, fs::path(data.glue) / task.name / (part + ".tsv"), Labels::kNeeded);
      for (Sentence row; file.next(row);) {
      }
      hash = fnv1a(file.fingerprint(), hash);
    }
  }
  data.glue_fingerprint = formatted("%016llx", hash);
}

void open_images(DataFolders& data) {
  constexpr double kHeldOut = 0.2;
  ImageDataOptions options;
  options.path = data.images;
  const auto layout = find_image_layout(data.images, {});
  HYDRAMIX_CHECK(layout.one_split || layout.has_validation(), data.images,
                 ": has train/ but none of val/, validation/ and test/. Add a folder for "
                 "validation, with a folder per class.");
  if (layout.one_split) options.held_out = kHeldOut;
  const auto splits = open_image_splits(options);
  data.images_held_out = options.held_out;
  data.training_images = splits.train->size();
  data.images_fingerprint = splits.train->fingerprint() + "-" + splits.validation->fingerprint();
}

DataFolders built_in_data(const std::string& folder) {
  const fs::path root = folder;
  for (const auto& task : glue_tasks())
    for (const auto& file : make_glue_task(task, kTinyTasks, kTinyTaskSeed)) {
      if (fs::exists(root / file.path)) continue;
      fs::create_directories((root / file.path).parent_path());
      write_file(root / file.path, file.contents);
    }
  DataFolders data;
  data.glue = folder;
  data.glue_tasks = tasks_in(root);
  return data;
}

}  // namespace hydramix
