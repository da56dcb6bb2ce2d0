// SPDX-License-Identifier: Apache-2.0
#include "data/text_documents.h"

#include <span>

#include "base/crc32c.h"
#include "hydramix/error.h"

namespace hydramix {

TextDocuments::TextDocuments(TextRows& rows, const Tokenizer& tokenizer, int64_t most,
                             const std::string& origin)
    : tokenizer_(tokenizer.fingerprint()) {
  std::vector<int32_t> ids;
  uint64_t end = 0;
  uint32_t sum = 0;
  for (TextRow row; (most == 0 || size() < most) && rows.next(row);) {
    ids.clear();
    try {
      tokenizer.append_ids(row.first, ids);
    } catch (const Error& error) {
      throw Error(concat(row.where, ": ", error.what()));
    }
    if (ids.empty()) continue;
    end += ids.size();
    const auto id_bytes = std::as_bytes(std::span(ids));
    const auto end_bytes = std::as_bytes(std::span(&end, 1));
    ids_.append(id_bytes);
    ends_.append(end_bytes);
    sum = crc32c(end_bytes, crc32c(id_bytes, sum));
  }
  ids_.finish();
  ends_.finish();
  fingerprint_ = checksum_text(sum);
  HYDRAMIX_CHECK(size() > 0, origin,
                 ": has no text with a word in it; expected one text per line. Check the file and "
                 "--format.");
}

TextDocuments::Range TextDocuments::range(int64_t document) const {
  HYDRAMIX_CHECK(document >= 0 && document < size(), "data: there is no text ", document,
                 ", expected 0 to ", size() - 1, ".");
  Range range{0, 0};
  const auto place = static_cast<uint64_t>(document) * sizeof(uint64_t);
  if (document > 0)
    ends_.read(place - sizeof(uint64_t), std::as_writable_bytes(std::span(&range.begin, 1)));
  ends_.read(place, std::as_writable_bytes(std::span(&range.end, 1)));
  return range;
}

int64_t TextDocuments::length(int64_t document) const {
  const auto [begin, end] = range(document);
  return static_cast<int64_t>(end - begin);
}

void TextDocuments::read(int64_t document, std::vector<int32_t>& ids) const {
  const auto [begin, end] = range(document);
  const std::size_t before = ids.size();
  ids.resize(before + (end - begin));
  ids_.read(begin * sizeof(int32_t), std::as_writable_bytes(std::span(ids).subspan(before)));
}

}  // namespace hydramix
