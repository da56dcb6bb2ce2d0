// SPDX-License-Identifier: Apache-2.0
// Classifies images with a trained model. This header needs no LibTorch:
//
//   const auto classifier = hydramix::ImageClassifier::open("runs/flowers/model");
//   const auto answer = classifier.classify("rose.jpg");
//   std::cout << answer.label << '\n';
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "hydramix/error.h"

namespace hydramix {

struct ImageClassifierOptions {
  std::string device = "cpu";  // or "cuda"; "auto": a GPU if there is one
  int64_t batch = 32;          // images computed at once
};

// One of several images cannot be used. what() names its file.
class ImageError : public Error {
 public:
  ImageError(std::size_t index, const std::string& reason) : Error(reason), index_(index) {}
  std::size_t index() const { return index_; }  // from 0

 private:
  std::size_t index_;
};

class ImageClassifier {
 public:
  struct Answer {
    std::string label;                  // of the most probable class
    std::size_t number = 0;             // of that class, counted from 0
    std::vector<double> probabilities;  // of all classes
  };

  // A folder with config.json and model.safetensors. Every failure is an Error that names the file.
  static ImageClassifier open(const std::filesystem::path& folder,
                              const ImageClassifierOptions& options = {});

  // One answer per file (JPEG or PNG), in order. A file that is no image, or whose answer is not
  // finite, is an ImageError. Thread-safe.
  std::vector<Answer> classify(std::span<const std::filesystem::path> files) const;
  Answer classify(const std::filesystem::path& file) const;

  const std::vector<std::string>& classes() const;
  int64_t size() const;  // width and height that images are resized to
  int64_t batch() const;

 private:
  struct State;
  explicit ImageClassifier(std::shared_ptr<const State> state);
  std::shared_ptr<const State> state_;
};

}  // namespace hydramix
