// SPDX-License-Identifier: Apache-2.0
// Joins all documents into one text, with [SEP] after each, and cuts it into rows of equal length.
// No token is lost. A row is a document of this class.
#pragma once

#include <memory>

#include "data/documents.h"

namespace hydramix {

class JoinedDocuments final : public Documents {
 public:
  // Rows of `row` tokens; the last one may be shorter.
  JoinedDocuments(std::unique_ptr<Documents> documents, int64_t row, int32_t separator);

  int64_t size() const override { return (tokens_ + row_ - 1) / row_; }
  int64_t length(int64_t row) const override;
  void read(int64_t row, std::vector<int32_t>& ids) const override;
  std::string tokenizer_fingerprint() const override { return documents_->tokenizer_fingerprint(); }
  std::string fingerprint() const override;

 private:
  // A document, and its start in the joined text.
  struct Place {
    int64_t document, begin;
  };
  Place find(int64_t token) const;

  std::unique_ptr<Documents> documents_;
  int64_t row_;
  int32_t separator_;
  int64_t tokens_ = 0;           // of the joined text
  std::vector<int64_t> begins_;  // start of every kStride-th document in it
};

}  // namespace hydramix
