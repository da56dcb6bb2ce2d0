// SPDX-License-Identifier: Apache-2.0
// The data of `hydramix reproduce --data DIR...`: each DIR, or a folder in it, is recognised by its
// contents.
//
//   text    train/ and validation/ (or valid/) with token shards (hydramix tokenize), and beside
//           them vocab.txt or tokenizer.json
//   GLUE    folders of the tasks with their official files: CoLA/train.tsv
//   images  any folder that train-images reads (images/image_collection.h)
#pragma once

#include <string>
#include <vector>

#include "reproduce/row_recipe.h"

namespace hydramix {

struct DataFolders {
  RowData text;                         // empty paths where there is none
  std::string glue;                     // a folder; empty where there is none
  std::vector<std::string> glue_tasks;  // of the paper's eight, those whose files are complete
  std::string images;                   // a folder; empty where there is none
  double images_held_out = 0;           // share for validation, where the folder has one split
  int64_t training_images = 0;
  // Fingerprints of the contents. Results for other data are not reused.
  std::string text_fingerprint, glue_fingerprint, images_fingerprint;
};

// Throws UsageError for a folder that does not exist or is none of these kinds, and for two of one
// kind.
DataFolders find_data_folders(const std::vector<std::string>& folders);

// Open the data as training will, and fill in what depends on the contents. Errors name the file,
// before anything is trained.
void open_text(DataFolders& data);
void open_glue(DataFolders& data);
void open_images(DataFolders& data);

// The eight tasks of the built-in language, written to `folder` unless they exist there.
DataFolders built_in_data(const std::string& folder);

}  // namespace hydramix
