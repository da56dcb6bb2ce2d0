// SPDX-License-Identifier: Apache-2.0
// search_texts FOLDER QUERY < texts: prints the lines of stdin that are most like the query, by the
// cosine of their vectors.
#include <algorithm>
#include <cstdio>
#include <exception>
#include <iostream>
#include <numeric>
#include <string>
#include <vector>

#include "hydramix/text_embedder.h"

int main(int argc, char** argv) try {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER QUERY < texts\n", argv[0]);
    return 2;
  }
  const auto embedder = hydramix::TextEmbedder::open(argv[1], {.normalize = true});
  std::vector<std::string> texts;
  for (std::string line; std::getline(std::cin, line);) texts.push_back(line);
  const auto query = embedder.embed(std::string(argv[2]));

  std::vector<std::pair<float, std::size_t>> found;  // cosine, number of the text
  const auto embeddings = embedder.embed(texts);
  for (std::size_t i = 0; i < texts.size(); ++i)
    found.emplace_back(
        std::inner_product(query.begin(), query.end(), embeddings[i].vector.begin(), 0.0F), i);
  std::stable_sort(found.begin(), found.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  found.resize(std::min<std::size_t>(found.size(), 5));
  for (const auto& [cosine, i] : found) std::printf("%.4f  %s\n", cosine, texts[i].c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "error: %s\n", error.what());
  return 1;
}
