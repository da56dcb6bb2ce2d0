// SPDX-License-Identifier: Apache-2.0
// Documents made of texts when they are opened, in constant memory: their ids are kept in a
// temporary file, four bytes each. For texts that are read more than once there are token shards
// (data/token_shards.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/scratch_file.h"
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

  int64_t size() const override { return static_cast<int64_t>(ends_.size() / sizeof(uint64_t)); }
  int64_t length(int64_t document) const override;
  void read(int64_t document, std::vector<int32_t>& ids) const override;
  std::string tokenizer_fingerprint() const override { return tokenizer_; }
  std::string fingerprint() const override { return fingerprint_; }

 private:
  // A document's ids in ids_.
  struct Range {
    uint64_t begin, end;
  };
  Range range(int64_t document) const;

  std::string tokenizer_, fingerprint_;  // the fingerprint of the tokenizer, and of the documents
  ScratchFile ids_;                      // int32_t, of all documents
  ScratchFile ends_;                     // uint64_t, the end of each document in ids_
};

}  // namespace hydramix
