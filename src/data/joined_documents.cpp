// SPDX-License-Identifier: Apache-2.0
#include "data/joined_documents.h"

#include <algorithm>

#include "hydramix/error.h"

namespace hydramix {
namespace {

// The start of every kStride-th document is stored: 125 MB for a billion documents.
constexpr int64_t kStride = 64;

}  // namespace

JoinedDocuments::JoinedDocuments(std::unique_ptr<Documents> documents, int64_t row,
                                 int32_t separator)
    : documents_(std::move(documents)), row_(row), separator_(separator) {
  HYDRAMIX_CHECK(row > 0, "joined documents: rows of ", row, " tokens; expected at least one.");
  for (int64_t i = 0; i < documents_->size(); ++i) {
    if (i % kStride == 0) begins_.push_back(tokens_);
    tokens_ += documents_->length(i) + 1;
  }
}

JoinedDocuments::Place JoinedDocuments::find(int64_t token) const {
  const auto next = std::upper_bound(begins_.begin(), begins_.end(), token);
  Place place{(next - begins_.begin() - 1) * kStride, *(next - 1)};
  while (place.begin + documents_->length(place.document) + 1 <= token)
    place.begin += documents_->length(place.document++) + 1;
  return place;
}

int64_t JoinedDocuments::length(int64_t row) const { return std::min(row_, tokens_ - row * row_); }

void JoinedDocuments::read(int64_t row, std::vector<int32_t>& ids) const {
  const int64_t first = row * row_, end = first + length(row);
  thread_local std::vector<int32_t> text;
  for (Place place = find(first); place.begin < end; ++place.document) {
    text.clear();
    documents_->read(place.document, text);
    text.push_back(separator_);
    const auto count = static_cast<int64_t>(text.size());
    ids.insert(ids.end(), text.begin() + std::max<int64_t>(0, first - place.begin),
               text.begin() + std::min(count, end - place.begin));
    place.begin += count;
  }
}

std::string JoinedDocuments::fingerprint() const {
  return concat(documents_->fingerprint(), " in rows of ", row_);
}

}  // namespace hydramix
