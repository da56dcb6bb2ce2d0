// SPDX-License-Identifier: Apache-2.0
// Documents made of texts when they are opened. Their ids are kept in memory, four bytes each;
// token shards (data/token_shards.h) are for more text than that.
#pragma once

#include <cstdint>
#include <iterator>
#include <string>
#include <vector>

#include "data/documents.h"
#include "data/text_rows.h"
#include "hydramix/tokenizer.h"

namespace hydramix {

class TextDocuments final : public Documents {
 public:
  // Reads at most `most` texts, or all of them if it is 0. Those without a token are left out. An
  // Error names the text, or `origin` where none is left.
  TextDocuments(TextRows& rows, const Tokenizer& tokenizer, int64_t most,
                const std::string& origin);

  int64_t size() const override { return std::ssize(ends_); }
  int64_t length(int64_t document) const override;
  void read(int64_t document, std::vector<int32_t>& ids) const override;
  std::string tokenizer_fingerprint() const override { return tokenizer_; }
  std::string fingerprint() const override;

 private:
  std::size_t begin(int64_t document) const;

  std::string tokenizer_;          // its fingerprint
  std::vector<int32_t> ids_;       // of all documents
  std::vector<std::size_t> ends_;  // of each document in ids_
};

}  // namespace hydramix
