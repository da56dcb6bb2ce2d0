// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for data sets: a folder of an index.json and one shard is refused with an Error,
// or every document of it can be read. The input is the index, a zero byte, and the shard.
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "data/token_shards.h"
#include "hydramix/error.h"

namespace {

const std::filesystem::path& folder() {
  static const std::filesystem::path made = [] {
    char pattern[] = "/dev/shm/hydramix-fuzz-XXXXXX";
    if (mkdtemp(pattern) == nullptr) std::abort();
    std::atexit([] { std::filesystem::remove_all(folder()); });
    return std::filesystem::path(pattern);
  }();
  return made;
}

void write(const char* name, const std::uint8_t* begin, const std::uint8_t* end) {
  std::ofstream(folder() / name, std::ios::binary)
      .write(reinterpret_cast<const char*>(begin), end - begin);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto* zero = std::find(data, data + size, std::uint8_t{0});
  write("index.json", data, zero);
  write("shard-00000.bin", zero == data + size ? zero : zero + 1, data + size);
  try {
    const hydramix::TokenShards shards(folder());
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < std::min<int64_t>(shards.size(), 1000); ++i) {
      ids.clear();
      shards.read(i, ids);
      if (static_cast<int64_t>(ids.size()) != shards.length(i)) __builtin_trap();
    }
    shards.verify([](int64_t) {});
  } catch (const hydramix::Error&) {
  }
  return 0;
}
