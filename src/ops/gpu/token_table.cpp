// SPDX-License-Identifier: Apache-2.0
#include "ops/gpu/token_table.h"

#include <list>
#include <mutex>

#include "hydramix/error.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/token_tiles.h"
#include "ops/gpu/last_write.h"

namespace hydramix::gpu {
namespace {

// Tables that are kept: enough for training, evaluation and a few shapes of requests in turn.
constexpr std::size_t kKept = 32;

struct Entry {
  std::vector<int64_t> offsets;
  torch::Device device;
  std::shared_ptr<const TokenTable> table;
  LastWrite write;
};

std::mutex kept_mutex;
// The one last used first. Never destroyed: when the process ends, the driver may have gone before.
std::list<Entry>& kept = *new std::list<Entry>;

thread_local std::shared_ptr<const TokenTable> put_in_place;

int64_t checked(int64_t tokens) {
  HYDRAMIX_CHECK(tokens < cuda::kMostTokens, "a call on a GPU takes fewer than 2^30 tokens; got ",
                 tokens, ". Split the batch.");
  return tokens;
}

// Two neighbouring tiles hold more than a tile together.
int64_t most_tiles(int64_t tokens) { return 2 * tokens / cuda::kTile + 1; }

torch::TensorOptions integers(torch::Device device) {
  return torch::TensorOptions().dtype(torch::kInt32).device(device);
}

}  // namespace

TokenTable::TokenTable(const std::vector<int64_t>& offsets, torch::Device device)
    : tokens_(checked(offsets.back())),
      any_(false),
      tiles_(std::make_shared<cuda::TokenTiles>(offsets)),
      bounds_(torch::empty({tokens_, 2}, integers(device))),
      begins_(torch::empty({tiles_->tiles() + 1}, integers(device))) {
  upload(*tiles_);
}

TokenTable::TokenTable(int64_t tokens, torch::Device device)
    : tokens_(checked(tokens)),
      any_(true),
      bounds_(torch::empty({tokens, 2}, integers(device))),
      begins_(torch::empty({most_tiles(tokens) + 1}, integers(device))) {}

void TokenTable::put(const std::vector<int64_t>& offsets) {
  HYDRAMIX_CHECK(any_ && offsets.back() == tokens_, "token table: has a place for ", tokens_,
                 " tokens; got ", offsets.back(), ".");
  upload(cuda::TokenTiles(offsets));
}

void TokenTable::upload(const cuda::TokenTiles& tiles) {
  auto begins = tiles.begins;
  begins.resize(static_cast<std::size_t>(begins_.size(0)), begins.back());  // tiles of nothing
  bounds_.copy_(
      torch::from_blob(const_cast<int2*>(tiles.bounds.data()), {tokens_, 2}, torch::kInt32));
  begins_.copy_(torch::from_blob(begins.data(), {begins_.size(0)}, torch::kInt32));
}

torch::Tensor TokenTable::sequences() const {
  const auto token = torch::arange(tokens_, bounds_.options());
  return (bounds_.select(1, 0) == token).cumsum(0) - 1;
}

torch::Tensor TokenTable::places() const {
  const auto token = torch::arange(tokens_, bounds_.options());
  return (token - bounds_.select(1, 0)).to(torch::kInt64);
}

void TokenTable::keep_for_current_stream() const {
  const auto stream = at::cuda::getCurrentCUDAStream(bounds_.device().index());
  for (const auto& t : {bounds_, begins_}) t.record_stream(stream);
}

const int2* TokenTable::bounds() const {
  return reinterpret_cast<const int2*>(bounds_.data_ptr<int>());
}

cuda::ScanLayout TokenTable::layout(int walks) const {
  cuda::ScanLayout layout{bounds(), begins_.data_ptr<int>(), tokens_,
                          static_cast<int>(begins_.size(0)) - 1};
  if (any_) {
    layout.segment = cuda::TokenTiles::segment_of(layout.tiles, walks);
    layout.states = layout.tiles > 1;
    layout.carries = layout.tiles > layout.segment;
  } else {
    layout.segment = tiles_->segment(walks);
    layout.states = tiles_->states;
    layout.carries = layout.states && tiles_->carries(layout.segment);
  }
  return layout;
}

std::shared_ptr<const TokenTable> token_table(const std::vector<int64_t>& offsets,
                                              torch::Device device) {
  if (put_in_place && put_in_place->tokens() == offsets.back()) return put_in_place;
  const std::lock_guard lock(kept_mutex);
  for (auto entry = kept.begin(); entry != kept.end(); ++entry)
    if (entry->device == device && entry->offsets == offsets) {
      kept.splice(kept.begin(), kept, entry);
      if (entry->write.join()) entry->table->keep_for_current_stream();
      return entry->table;
    }
  kept.push_front(
      {offsets, device, std::make_shared<TokenTable>(offsets, device), LastWrite(device)});
  if (kept.size() > kKept) kept.pop_back();
  return kept.front().table;
}

TableGuard::TableGuard(std::shared_ptr<const TokenTable> table) : before_(put_in_place) {
  put_in_place = std::move(table);
}

TableGuard::~TableGuard() { put_in_place = before_; }

}  // namespace hydramix::gpu
