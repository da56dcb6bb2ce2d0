// SPDX-License-Identifier: Apache-2.0
#include "data/text_documents.h"

#include <span>

#include "base/crc32c.h"
#include "hydramix/error.h"

namespace hydramix {

TextDocuments::TextDocuments(TextRows& rows, const Tokenizer& tokenizer, int64_t most,
                             const std::string& origin)
    : tokenizer_(tokenizer.fingerprint()) {
  for (TextRow row; (most == 0 || size() < most) && rows.next(row);) {
    const std::size_t before = ids_.size();
    try {
      tokenizer.append_ids(row.first, ids_);
    } catch (const Error& error) {
      throw Error(concat(row.where, ": ", error.what()));
    }
    if (ids_.size() > before) ends_.push_back(ids_.size());
  }
  HYDRAMIX_CHECK(!ends_.empty(), origin,
                 ": has no text with a word in it; expected one text per line. Check the file and "
                 "--format.");
}

std::size_t TextDocuments::begin(int64_t document) const {
  HYDRAMIX_CHECK(document >= 0 && document < size(), "data: there is no text ", document,
                 ", expected 0 to ", size() - 1, ".");
  return document == 0 ? 0 : ends_[static_cast<std::size_t>(document) - 1];
}

int64_t TextDocuments::length(int64_t document) const {
  const std::size_t first = begin(document);
  return static_cast<int64_t>(ends_[static_cast<std::size_t>(document)] - first);
}

void TextDocuments::read(int64_t document, std::vector<int32_t>& ids) const {
  const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(begin(document));
  ids.insert(ids.end(), first, first + static_cast<std::ptrdiff_t>(length(document)));
}

std::string TextDocuments::fingerprint() const {
  const auto sum = crc32c(std::as_bytes(std::span(ids_)));
  return checksum_text(crc32c(std::as_bytes(std::span(ends_)), sum));
}

}  // namespace hydramix
