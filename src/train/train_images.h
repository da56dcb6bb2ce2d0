// SPDX-License-Identifier: Apache-2.0
// Training of an image classifier as one call. The defaults are the paper's recipe for ImageNet-1K.
//
// A run is a folder:  config.json     the options, complete: the run can be repeated from it alone
//                     data.json       fingerprints of the images and of the model it starts from
//                     metrics.jsonl   losses and rates, step by step
//                     checkpoints/    the state; the same call continues from it
//                     model/          the trained model
//                     average/        the average of its weights, if one is kept
//                     classes.tsv     the last evaluation, class by class
//                     confusion.tsv   images of each class by the answer, of the last evaluation
//                     confusion.svg   the same as a picture, in shares of each class
#pragma once

#include <string>
#include <vector>

#include "hydramix/image_model.h"
#include "images/augment.h"
#include "images/image_data.h"
#include "train/image_training.h"
#include "train/run_options.h"
#include "train/trainer.h"

namespace hydramix {

// TrainOptions in epochs. The fields that count steps are computed from them.
struct ImageEpochOptions {
  double epochs = 300;
  double warmup_epochs = 10;
  double evaluate_epochs = 1;
  std::string shape = "cosine";
  double final = 0.01;
  TrainOptions steps = paper_defaults();

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("epochs", self.epochs, Range{1e-6, 1e9}, "passes over the training images");
    v("warmup_epochs", self.warmup_epochs, Range{0.0, 1e9}, "epochs in which the rate rises");
    v("shape", self.shape, Choices{"linear", "cosine", "constant"},
      "decrease of the rate after the warm-up; constant: none, and final is ignored");
    v("final", self.final, Range{0.0, 1.0}, "rate at the last step, as a share of the peak");
    v("evaluate_epochs", self.evaluate_epochs, Range{1e-6, 1e9},
      "epochs between evaluations; there is always one at the end");
    TrainOptions::fields_of_step(self.steps, v);
    TrainOptions::fields_of_run(self.steps, v);
  }

 private:
  static TrainOptions paper_defaults();
};

struct ImageTrainOptions {
  std::string out = "runs/images";
  std::string device = "auto";
  std::string precision = "auto";
  std::string from;
  ImageModelOptions model;
  ImageDataOptions data;
  AugmentOptions augment;
  ImageEpochOptions train;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    fields_of_run(self, v);
    fields_of_profile(self.train.steps.profile, v);
    v("from", self.from,
      "folder of an image model or run to start from: its model is used, except for size, "
      "classes and stochastic_depth; positions are interpolated, other classes get a new "
      "classifier");
    v("model", self.model, "the model");
    v("data", self.data, "the images");
    v("augment", self.augment, "what training changes in them");
    v("train", self.train, "the training");
  }
};

struct ImageTrainResult {
  Trainer::End end = Trainer::End::kDone;
  int64_t parameters = 0;
  nlohmann::ordered_json evaluation;  // the last one; null if there was none
};

// Callbacks before and during a run, on rank 0 only.
struct ImageTrainEvents : TrainEvents {
  // Before the model is made: all options, with the steps and classes that follow from the data.
  std::function<void(const ImageTrainOptions& options, int64_t parameters)> building;
  // Before the first step: the rate of matrix products on this machine.
  std::function<void(double gemm_flops_per_second)> ready;
};

// The steps of a run over this number of training images.
int64_t steps_of(const ImageEpochOptions& train, int64_t images);

// The options with everything that follows from the images and from the model to start from: the
// number of classes, of steps, and of steps between evaluations. Throws UsageError for options that
// contradict each other or the data.
ImageTrainOptions completed(ImageTrainOptions options, const ImageCollection& training);

// Throws an Error if the run ends without a usable model (Trainer::run); there is no model/ then.
ImageTrainResult train_images(const ImageTrainOptions& options,
                              const ImageTrainEvents& events = {});

// The model of a folder: `path` itself, or if it is a run of train-images its model/ or, with
// `which` "average", its average/. UsageError where there is no average.
std::filesystem::path image_model_folder(const std::filesystem::path& path,
                                         const std::string& which = "last");

}  // namespace hydramix
