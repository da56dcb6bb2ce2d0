// SPDX-License-Identifier: Apache-2.0
#include "hydramix/layout.h"

#include "hydramix/error.h"

namespace hydramix {
namespace {

constexpr int64_t kMaxTokens = int64_t{1} << 33;

void check_places(const char* who, const torch::Tensor& t) {
  HYDRAMIX_CHECK(t.defined() && t.dim() >= 2, "layout: ", who,
                 ": expected a tensor (B, L, ...); got ",
                 t.defined() ? concat("shape ", t.sizes()) : "an undefined tensor", ".");
}

// The first row of `bad` (B) that is true.
int64_t first_true(const torch::Tensor& bad) { return bad.nonzero()[0][0].item<int64_t>(); }

// The sizes of t from dimension `from` on, with `leading` in front.
std::vector<int64_t> with_leading(std::vector<int64_t> leading, const torch::Tensor& t,
                                  int64_t from) {
  for (int64_t d = from; d < t.dim(); ++d) leading.push_back(t.size(d));
  return leading;
}

// (S, L') bool shaped to broadcast against (S, L', ...).
torch::Tensor mask_like(const torch::Tensor& valid, const torch::Tensor& t) {
  std::vector<int64_t> shape(t.dim(), 1);
  shape[0] = valid.size(0);
  shape[1] = valid.size(1);
  return valid.to(t.device()).view(shape);
}

}  // namespace

Layout Layout::padded(const torch::Tensor& mask) {
  HYDRAMIX_CHECK(mask.defined() && mask.dim() == 2, "padding mask: expected shape (B, L); got ",
                 mask.defined() ? concat(mask.sizes()) : "an undefined tensor",
                 ". Give one row per sequence, true where a token is.");
  torch::Tensor m = mask;
  if (mask.scalar_type() != torch::kBool) {
    HYDRAMIX_CHECK(torch::isIntegralType(mask.scalar_type(), /*includeBool=*/false),
                   "padding mask: expected bool, or integers 0 and 1; got dtype ", mask.dtype(),
                   ". Convert it, for example with mask.to(torch::kBool).");
    HYDRAMIX_CHECK(((mask == 0) | (mask == 1)).all().item<bool>(),
                   "padding mask: integer masks may hold 0 and 1 only. Convert it to bool if any "
                   "other value means a token.");
    m = mask.to(torch::kBool);
  }
  if (m.all().item<bool>()) {
    const Layout full;
    return full.for_shape(m.size(0), m.size(1));
  }
  const int64_t B = m.size(0), L = m.size(1);
  const auto counts = m.to(torch::kInt64);
  const auto lengths = counts.sum(1);              // (B)
  const auto begins = std::get<1>(counts.max(1));  // (B): max() returns the first maximum
  const auto ends = L - std::get<1>(counts.flip({1}).max(1));
  const auto holes = (lengths > 0) & (ends - begins != lengths);
  HYDRAMIX_CHECK(!holes.any().item<bool>(), "padding mask: row ", first_true(holes),
                 " has padding between its tokens; padding may stand before and after a sequence "
                 "only. Move the tokens together, or give the parts as packed sequences.");
  const auto keep = (lengths > 0).nonzero().squeeze(1);  // empty sequences are left out
  const auto first = begins + torch::arange(B, begins.options()) * L;
  return gathered(B, L, first.index_select(0, keep), lengths.index_select(0, keep));
}

Layout Layout::packed(const torch::Tensor& cu_seqlens) {
  HYDRAMIX_CHECK(
      cu_seqlens.defined() && cu_seqlens.dim() == 1 && cu_seqlens.numel() >= 1,
      "cu_seqlens: expected a vector of offsets (sequences + 1); got ",
      cu_seqlens.defined() ? concat("shape ", cu_seqlens.sizes()) : "an undefined tensor", ".");
  HYDRAMIX_CHECK(torch::isIntegralType(cu_seqlens.scalar_type(), /*includeBool=*/false),
                 "cu_seqlens: expected int32 or int64 offsets; got dtype ", cu_seqlens.dtype(),
                 ".");
  const auto offsets = cu_seqlens.to(torch::kInt64);
  const int64_t first = offsets[0].item<int64_t>();
  HYDRAMIX_CHECK(first == 0, "cu_seqlens: must start at 0; got ", first,
                 " first. Give the running sum of the lengths with a 0 in front.");
  const auto lengths = offsets.diff();
  const auto falling = lengths < 0;
  if (falling.any().item<bool>()) {
    const int64_t s = first_true(falling);
    throw Error(concat("cu_seqlens: must not decrease; got ", offsets[s].item<int64_t>(), " then ",
                       offsets[s + 1].item<int64_t>(), " at index ", s + 1,
                       ". Give the running sum of the lengths with a 0 in front."));
  }
  const int64_t end = offsets[-1].item<int64_t>();
  HYDRAMIX_CHECK(end <= kMaxTokens, "cu_seqlens: ends at ", end, ", but at most ", kMaxTokens,
                 " tokens can be laid out. Is the last offset the number of tokens?");
  const auto keep = (lengths > 0).nonzero().squeeze(1);
  return gathered(1, end, offsets.index_select(0, keep), lengths.index_select(0, keep));
}

Layout Layout::packed(const Sequences& sequences) {
  Layout layout = packed(torch::tensor(sequences.offsets(), torch::kInt64));
  HYDRAMIX_CHECK(layout.sequences_->count() == sequences.count(),
                 "layout: packed: one of the sequences is empty. Leave it out.");
  layout.sequences_ = sequences;
  return layout;
}

Layout Layout::gathered(int64_t B, int64_t L, const torch::Tensor& begins,
                        const torch::Tensor& lengths) {
  Layout layout;
  layout.kind_ = Kind::kGathered;
  layout.any_shape_ = false;
  layout.B_ = B;
  layout.L_ = L;
  layout.begins_ = begins;
  layout.lengths_ = lengths;
  layout.longest_ = lengths.numel() == 0 ? 0 : lengths.max().item<int64_t>();
  layout.place_tokens();
  layout.equal_lengths_ = layout.is_dense() && layout.longest_ > 0 &&
                          layout.longest_ * lengths.numel() == layout.sequences_->tokens();
  if (layout.equal_lengths_) return layout;

  // Sequences are grouped by the number of binary digits of their length, so the longest of a group
  // is less than twice as long as the shortest.
  const auto digits = std::get<1>(torch::frexp(lengths.to(torch::kFloat64)));
  const auto kinds = std::get<0>(at::_unique(digits));
  if (kinds.numel() <= 1) {
    layout.index_ = make_index(begins, lengths);
    return layout;
  }
  std::vector<Layout> parts;
  for (int64_t k = 0; k < kinds.numel(); ++k) {
    const auto members = (digits == kinds[k]).nonzero().squeeze(1);
    parts.push_back(
        gathered(B, L, begins.index_select(0, members), lengths.index_select(0, members)));
  }
  layout.parts_ = std::make_shared<const std::vector<Layout>>(std::move(parts));
  return layout;
}

void Layout::place_tokens() {
  const auto ends = lengths_.cumsum(0), ends_here = ends.to(torch::kCPU);
  std::vector<int64_t> offsets{0};
  offsets.insert(offsets.end(), ends_here.data_ptr<int64_t>(),
                 ends_here.data_ptr<int64_t>() + ends_here.numel());
  sequences_ = Sequences(std::move(offsets));
  if (sequences_->tokens() == B_ * L_) return;
  const auto moved = (begins_ - (ends - lengths_)).repeat_interleave(lengths_);
  token_ = moved + torch::arange(sequences_->tokens(), moved.options());
}

std::shared_ptr<const Layout::Index> Layout::make_index(const torch::Tensor& begins,
                                                        const torch::Tensor& lengths) {
  auto index = std::make_shared<Index>();
  const int64_t longest = lengths.numel() == 0 ? 0 : lengths.max().item<int64_t>();
  const auto step = torch::arange(longest, begins.options());  // (L')
  index->valid = step.unsqueeze(0) < lengths.unsqueeze(1);     // (S, L')
  index->place = (begins.unsqueeze(1) + step).masked_fill(~index->valid, 0).flatten();
  index->token_row = index->valid.flatten().nonzero().squeeze(1);
  index->token = index->place.index_select(0, index->token_row);
  return index;
}

std::shared_ptr<const Layout::Index> Layout::index() const {
  return index_ ? index_ : make_index(begins_, lengths_);
}

torch::Tensor Layout::valid() const {
  return is_full() || equal_lengths_ ? torch::Tensor() : index()->valid;
}

std::vector<Layout> Layout::parts() const { return parts_ ? *parts_ : std::vector<Layout>{*this}; }

void Layout::check(const std::string& who, int64_t B, int64_t L) const {
  HYDRAMIX_CHECK(any_shape_ || (B == B_ && L == L_), who, ": the layout describes (B, L) = (", B_,
                 ", ", L_, ") but the input has (", B, ", ", L,
                 "). The padding mask must be (B, L); packed input must be (1, cu_seqlens.back(), "
                 "...).");
}

Sequences Layout::sequences(int64_t B, int64_t L) const {
  return sequences_ ? *sequences_ : Sequences::uniform(B, L);
}

Layout Layout::for_shape(int64_t B, int64_t L) const {
  if (!any_shape_) return *this;
  Layout layout = *this;
  layout.any_shape_ = false;
  layout.B_ = B;
  layout.L_ = L;
  layout.sequences_ = Sequences::uniform(B, L);
  return layout;
}

torch::Tensor Layout::to_tokens(const torch::Tensor& t) const {
  check_places("to_tokens", t);
  check("layout: to_tokens", t.size(0), t.size(1));
  if (is_dense()) return t;
  return t.flatten(0, 1).index_select(0, token_.to(t.device())).unsqueeze(0);
}

torch::Tensor Layout::from_tokens(const torch::Tensor& tokens) const {
  check_places("from_tokens", tokens);
  if (is_dense()) {
    check("layout: from_tokens", tokens.size(0), tokens.size(1));
    return tokens;
  }
  HYDRAMIX_CHECK(tokens.size(0) == 1 && tokens.size(1) == sequences_->tokens(),
                 "layout: from_tokens: this layout has ", sequences_->tokens(),
                 " tokens; got a tensor of shape ", tokens.sizes(),
                 ". Give what to_tokens() made.");
  return torch::zeros(with_leading({B_ * L_}, tokens, 2), tokens.options())
      .index_copy(0, token_.to(tokens.device()), tokens.squeeze(0))
      .view(with_leading({B_, L_}, tokens, 2));
}

Layout Layout::token_layout() const {
  if (is_dense()) return *this;
  Layout layout = gathered(1, sequences_->tokens(), lengths_.cumsum(0) - lengths_, lengths_);
  layout.sequences_ = sequences_;  // shares their tables on devices
  return layout;
}

torch::Tensor Layout::to_rows(const torch::Tensor& t) const {
  check_places("to_rows", t);
  check("layout: to_rows", t.size(0), t.size(1));
  if (kind_ == Kind::kFull) return t;
  if (equal_lengths_)
    return t.flatten(0, 1).view(with_leading({sequences_->count(), longest_}, t, 2));
  const auto at = index();
  if (kind_ == Kind::kRows) return t.masked_fill(~mask_like(at->valid, t), 0);
  const auto rows = t.flatten(0, 1)
                        .index_select(0, at->place.to(t.device()))
                        .view(with_leading({at->valid.size(0), at->valid.size(1)}, t, 2));
  return rows.masked_fill(~mask_like(at->valid, rows), 0);
}

torch::Tensor Layout::from_rows(const torch::Tensor& rows) const {
  check_places("from_rows", rows);
  if (kind_ == Kind::kFull) {
    check("layout: from_rows", rows.size(0), rows.size(1));
    return rows;
  }
  const std::vector<int64_t> expected{sequences_->count(), longest_};
  HYDRAMIX_CHECK(rows.sizes().slice(0, 2) == expected,
                 "layout: from_rows: the rows of this layout are ", at::IntArrayRef(expected),
                 "; got a tensor of shape ", rows.sizes(), ". Give what to_rows() made.");
  if (equal_lengths_) return rows.reshape(with_leading({B_, L_}, rows, 2));
  const auto at = index();
  if (kind_ == Kind::kRows) return rows.masked_fill(~mask_like(at->valid, rows), 0);
  const auto tokens = rows.flatten(0, 1).index_select(0, at->token_row.to(rows.device()));
  return torch::zeros(with_leading({B_ * L_}, rows, 2), rows.options())
      .index_copy(0, at->token.to(rows.device()), tokens)
      .view(with_leading({B_, L_}, rows, 2));
}

Layout Layout::row_layout() const {
  if (kind_ == Kind::kFull || equal_lengths_) return {};
  Layout rows;
  rows.kind_ = Kind::kRows;
  rows.any_shape_ = false;
  rows.index_ = index();
  rows.B_ = rows.index_->valid.size(0);
  rows.L_ = rows.longest_ = rows.index_->valid.size(1);
  rows.lengths_ = rows.index_->valid.sum(1);
  rows.begins_ = torch::arange(rows.B_, rows.lengths_.options()) * rows.L_;
  rows.place_tokens();
  return rows;
}

}  // namespace hydramix
