// SPDX-License-Identifier: Apache-2.0
// hydramix import-hf: a BERT of Hugging Face's transformers as a model folder.
#include <cstdio>

#include "cli/commands.h"
#include "cli/output_path.h"
#include "hub/bert_checkpoint.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

struct ImportHfOptions {
  std::string folder, out;
  bool overwrite = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("folder", self.folder, Positional{}, Required{},
      "folder with config.json, weights and tokenizer of a BERT, as save_pretrained writes it");
    v("out", self.out, Positional{}, Required{}, "model folder to write");
    v("overwrite", self.overwrite, "write into a folder that is not empty, and replace its model");
  }
};

int import_hf(const ImportHfOptions& o) {
  auto inputs = model_files(o.folder);
  inputs.push_back(o.folder);
  check_not_an_input("import-hf: OUT", o.out, inputs);
  check_new_folder("import-hf", o.out, o.overwrite);
  const auto imported = import_bert(o.folder);
  for (const auto& note : imported.notes)
    std::fprintf(stderr, "%s: %s\n", o.folder.c_str(), note.c_str());
  if (imported.classifier)
    save_classifier(o.out, imported.classifier->model, *imported.classifier, &imported.tokenizer);
  else
    save_model(o.out, imported.masked_lm, &imported.tokenizer);
  std::printf("wrote %s from %s\n", o.out.c_str(), imported.architecture.c_str());
  return 0;
}

}  // namespace

Command import_hf_command() {
  return make_command<ImportHfOptions>(
      "import-hf", "turn a BERT of Hugging Face into a model folder", import_hf,
      "Reads BertForMaskedLM, BertForPreTraining, BertForSequenceClassification, and BertModel, "
      "which becomes a model of vectors for embed. The result computes the same with attention, "
      "and can be evaluated and fine-tuned as any other model.");
}

}  // namespace hydramix
