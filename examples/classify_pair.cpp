// SPDX-License-Identifier: Apache-2.0
// classify_pair FOLDER FIRST SECOND: classifies a pair of sentences with a fine-tuned model.
#include <cstdio>
#include <exception>

#include "hydramix/text_classifier.h"

int main(int argc, char** argv) try {
  if (argc != 4) {
    std::fprintf(stderr, "usage: %s FOLDER FIRST SECOND\n", argv[0]);
    return 2;
  }
  const auto classifier = hydramix::TextClassifier::open(argv[1]);
  const auto answer = classifier.classify({argv[2], argv[3]});
  if (classifier.labels().empty())
    std::printf("%.4f\n", answer.value);
  else
    std::printf("%s\n", answer.label.c_str());
  for (std::size_t k = 0; k < answer.probabilities.size(); ++k)
    std::printf("  %.4f  %s\n", answer.probabilities[k], classifier.labels()[k].c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
