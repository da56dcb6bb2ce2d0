// SPDX-License-Identifier: Apache-2.0
// A model on disk: a folder of
//
//   config.json         {"format": "hydramix-model", "version": 1, "model": all of BertOptions}
//   model.safetensors   the weights under their published names; the same config as metadata
//
// A classifier's config also has "classifier": all of ClassifierOptions and of ClassifierTask. A
// model saved with its tokenizer has tokenizer.json too, and the config has "tokenizer": its
// fingerprint.
//
// Each file is written atomically. The weights have checksums (safetensors.h), which are checked
// when they are loaded. A model of images has "image_model", all of ImageModelOptions, in place of
// "model", and "images": all of ImageTask. The copy of the config and the fingerprint detect
// damage, and files that do not belong together, as after a crash between two of them. Configs are
// compared by meaning, not by bytes, so that other programs may write them again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "hydramix/bert.h"
#include "hydramix/image_model.h"
#include "hydramix/sequence_classifier.h"
#include "hydramix/tokenizer.h"

namespace hydramix {

// Creates the folder if needed, and replaces a model in it.
void save_model(const std::filesystem::path& folder, const BertForMaskedLM& model,
                const Tokenizer* tokenizer = nullptr);

// Loads the same model, bit for bit, to the CPU. Every failure is an Error that names file and key.
BertForMaskedLM load_model(const std::filesystem::path& folder);

// The task of a classifier, as far as its answers depend on it.
struct ClassifierTask {
  std::string task;                 // its name
  std::vector<std::string> labels;  // in the order of the outputs; empty: a score, or vectors
  // "classes", "score", "labels" (any number of them for a text), "tokens" (a tag for each word) or
  // "pairs" (vectors of texts); empty: classes, or a score without labels
  std::string kind = {};
  std::vector<double> thresholds = {};  // "labels": probabilities from which a label applies
  // The columns of the training file. Empty: the file had none, or was GLUE's.
  std::string text = {}, pair = {}, label = {}, separator = {};
  bool pairs = false;  // reads two texts together
};

struct ClassifierFolder : ClassifierTask {
  SequenceClassifier model{nullptr};
};

// As save_model(). Needs as many distinct labels as outputs, or none for one output.
void save_classifier(const std::filesystem::path& folder, const SequenceClassifier& model,
                     const ClassifierTask& task, const Tokenizer* tokenizer = nullptr);
void save_classifier(const std::filesystem::path& folder, const SequenceClassifier& model,
                     const std::string& task, const std::vector<std::string>& labels,
                     const Tokenizer* tokenizer = nullptr);

// As load_model().
ClassifierFolder load_classifier(const std::filesystem::path& folder);

// The task of a classifier's folder, without loading weights. Throws as load_classifier() does.
ClassifierTask load_classifier_task(const std::filesystem::path& folder);
// The folder's tokenizer.json. Throws an Error if it is missing, or not the one that the model was
// saved with.
Tokenizer load_model_tokenizer(const std::filesystem::path& folder);

// Whether the folder's config.json is a classifier's; false where there is none.
bool is_classifier(const std::filesystem::path& folder);

// The classes of an image model, and how an image of any size becomes its input: the shorter side
// is resized to model.size / crop_fraction, the centre is cut out, and bytes / 255 are normalised.
struct ImageTask {
  std::vector<std::string> classes;  // in the order of the outputs
  double crop_fraction = 0.875;
  std::string interpolation = "bicubic";
  std::vector<double> means = {0.485, 0.456, 0.406}, deviations = {0.229, 0.224, 0.225};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("classes", self.classes, "names of the classes");
    v("crop_fraction", self.crop_fraction, Range{0.01, 1.0},
      "size of the crop over the shorter side of the resized image");
    v("interpolation", self.interpolation, Choices{"bilinear", "bicubic", "random"},
      "filter for resizing; random: bicubic");
    v("means", self.means, "means subtracted from red, green and blue (0 to 1)");
    v("deviations", self.deviations,
      "standard deviations by which red, green and blue are divided");
  }
};

struct ImageModelFolder : ImageTask {
  ImageModel model{nullptr};
};

// As save_model() and load_model(). Needs a name for each class.
void save_image_model(const std::filesystem::path& folder, const ImageModel& model,
                      const ImageTask& task);
ImageModelFolder load_image_model(const std::filesystem::path& folder);

}  // namespace hydramix
