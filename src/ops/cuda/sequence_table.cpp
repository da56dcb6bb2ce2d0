// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/sequence_table.h"

#include "hydramix/error.h"
#include "kernels/cuda/limits.h"
#include "kernels/cuda/scan.h"
#include "kernels/cuda/token_tiles.h"
#include "ops/cuda/last_write.h"
#include "ops/cuda/launch.h"
#include "ops/sequences.h"

namespace hydramix::on_cuda {
namespace {

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

cuda::TokenTiles tiles_of(const Sequences::State& sequences) {
  if (sequences.length == 0) return cuda::TokenTiles(sequences.offsets);
  return {static_cast<int64_t>(sequences.offsets.size()) - 1, sequences.length};
}

}  // namespace

SequenceTable::SequenceTable(const Sequences::State& sequences, torch::Device device)
    : tokens_(checked(sequences.offsets.back())),
      refillable_(false),
      tiles_(std::make_shared<cuda::TokenTiles>(tiles_of(sequences))),
      bounds_(torch::empty({tokens_, 2}, integers(device))),
      begins_(torch::empty({tiles_->tiles() + 1}, integers(device))) {
  upload(*tiles_);
}

SequenceTable::SequenceTable(int64_t tokens, torch::Device device)
    : tokens_(checked(tokens)),
      refillable_(true),
      bounds_(torch::empty({tokens, 2}, integers(device))),
      begins_(torch::empty({most_tiles(tokens) + 1}, integers(device))) {}

void SequenceTable::fill(const std::vector<int64_t>& offsets) {
  HYDRAMIX_CHECK(refillable_ && offsets.back() == tokens_, "sequence table: has room for ", tokens_,
                 " tokens; got ", offsets.back(), ".");
  upload(cuda::TokenTiles(offsets));
}

void SequenceTable::upload(const cuda::TokenTiles& tiles) {
  const c10::cuda::CUDAGuard guard(bounds_.device());
  if (tiles.length > 0) {  // computed on the device, which a graph capture allows
    check(cuda::fill_uniform_table(tokens_, tiles.length, tiles.tiles(),
                                   reinterpret_cast<int2*>(bounds_.data_ptr<int>()),
                                   begins_.data_ptr<int>(), stream()),
          "sequence table");
    return;
  }
  auto begins = tiles.begins;
  begins.resize(static_cast<std::size_t>(begins_.size(0)), begins.back());  // empty tiles
  bounds_.copy_(
      torch::from_blob(const_cast<int2*>(tiles.bounds.data()), {tokens_, 2}, torch::kInt32));
  begins_.copy_(torch::from_blob(begins.data(), {begins_.size(0)}, torch::kInt32));
}

torch::Tensor SequenceTable::index_of_tokens() const {
  const auto token = torch::arange(tokens_, bounds_.options());
  return (bounds_.select(1, 0) == token).cumsum(0) - 1;
}

torch::Tensor SequenceTable::place_of_tokens() const {
  const auto token = torch::arange(tokens_, bounds_.options());
  return (token - bounds_.select(1, 0)).to(torch::kInt64);
}

void SequenceTable::keep_for_current_stream() const {
  const auto stream = at::cuda::getCurrentCUDAStream(bounds_.device().index());
  for (const auto& t : {bounds_, begins_}) t.record_stream(stream);
}

const int2* SequenceTable::bounds() const {
  return reinterpret_cast<const int2*>(bounds_.data_ptr<int>());
}

int64_t SequenceTable::length() const { return refillable_ ? 0 : tiles_->length; }

cuda::ScanLayout SequenceTable::layout(int walks) const {
  cuda::ScanLayout layout{bounds(), begins_.data_ptr<int>(), tokens_,
                          static_cast<int>(begins_.size(0)) - 1};
  if (refillable_) {
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

// The tables of a layout, one for each device that was used.
class SequenceTables {
 public:
  struct Entry {
    std::shared_ptr<SequenceTable> table;
    std::shared_ptr<LastWrite> write;
  };
  std::vector<Entry> entries;
};

namespace {

// With the mutex held.
SequenceTables& tables_of(Sequences::State& state) {
  if (!state.tables) state.tables = std::make_shared<SequenceTables>();
  return *state.tables;
}

}  // namespace

std::shared_ptr<const SequenceTable> table_of(const Sequences& sequences, torch::Device given) {
  const torch::Device device =
      given.has_index() ? given : torch::Device(torch::kCUDA, c10::cuda::current_device());
  auto& state = sequences.state();
  const std::lock_guard lock(state.mutex);
  auto& tables = tables_of(state);
  for (auto& entry : tables.entries)
    if (entry.table->device() == device) {
      if (entry.write->join()) entry.table->keep_for_current_stream();
      return entry.table;
    }
  auto table = std::make_shared<SequenceTable>(state, device);
  tables.entries.push_back({table, std::make_shared<LastWrite>(table->device())});
  return table;
}

torch::Tensor index_of_tokens(const Sequences& sequences, torch::Device device) {
  return table_of(sequences, device)->index_of_tokens();
}

torch::Tensor place_of_tokens(const Sequences& sequences, torch::Device device) {
  return table_of(sequences, device)->place_of_tokens();
}

void make_table(const Sequences& sequences, torch::Device device) { table_of(sequences, device); }

void make_refillable_table(const Sequences& sequences, torch::Device device) {
  auto& state = sequences.state();
  const std::lock_guard lock(state.mutex);
  auto table = std::make_shared<SequenceTable>(sequences.tokens(), device);
  table->fill(state.offsets);
  tables_of(state).entries.push_back({table, std::make_shared<LastWrite>(table->device())});
}

void refill_table(const Sequences& sequences, const std::vector<int64_t>& offsets) {
  auto& state = sequences.state();
  const std::lock_guard lock(state.mutex);
  HYDRAMIX_CHECK(state.tables && state.tables->entries.size() == 1,
                 "sequence table: only refillable sequences can be filled again.");
  auto& entry = state.tables->entries[0];
  entry.write->join();
  entry.table->fill(offsets);
  entry.write->record();
}

}  // namespace hydramix::on_cuda
