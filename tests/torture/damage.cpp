// SPDX-License-Identifier: Apache-2.0
#include "torture/damage.h"

#include <fstream>
#include <nlohmann/json.hpp>

#include "torture/server.h"

namespace torture {
namespace {

namespace fs = std::filesystem;

struct Target {
  std::string folder, file;
  std::vector<std::string> use;
};

// Files with a checksum, and a command that reads all of each.
const std::vector<Target>& targets() {
  static const std::vector<std::string> fill{"fill-mask", "--model", "model", "anna [MASK] ."},
      evaluate{"evaluate", "model", "--data", "data", "--json"};
  static const std::vector<Target> all{
      {"model", "model.safetensors", fill},  {"model", "config.json", fill},
      {"model", "tokenizer.json", fill},     {"data", "shard-00000.bin", evaluate},
      {"data", "shard-00001.bin", evaluate}, {"data", "index.json", evaluate}};
  return all;
}

// Equal as JSON, so equal to every reader.
bool means_the_same(const std::string& a, const std::string& b) {
  const auto before = nlohmann::json::parse(a, nullptr, false);
  return !before.is_discarded() && before == nlohmann::json::parse(b, nullptr, false);
}

}  // namespace

Damage damage_a_file(const fs::path& fixtures, const fs::path& folder, std::mt19937& random) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const char* name : {"model", "data"})
    fs::copy(fixtures / name, folder / name, fs::copy_options::recursive);
  const auto& target = targets()[random() % targets().size()];
  const auto path = folder / target.folder / target.file;
  const std::string before = contents_of(path);
  std::string bytes = before;
  Damage damage;
  damage.file = path;
  damage.verify = folder / target.folder;
  damage.use = target.use;
  const std::size_t at = random() % bytes.size();
  damage.what = target.folder + "/" + target.file + ": ";
  switch (random() % 5) {
    case 0:
    case 1:
      bytes[at] = static_cast<char>(bytes[at] ^ (1 << random() % 8));
      damage.what += "a bit of byte " + std::to_string(at) + " is flipped";
      break;
    case 2:
      bytes.resize(at);
      damage.what += "is cut at byte " + std::to_string(at);
      break;
    case 3: {
      const std::size_t count = std::min<std::size_t>(1 + random() % 512, bytes.size() - at);
      bytes.replace(at, count, count, '\0');
      damage.what += std::to_string(count) + " bytes from " + std::to_string(at) + " are zero";
      break;
    }
    default:
      bytes.insert(at, 1, static_cast<char>(random()));
      damage.what += "a byte is inserted at " + std::to_string(at);
  }
  damage.is_harmless =
      bytes == before || (path.extension() == ".json" && means_the_same(before, bytes));
  std::ofstream(path, std::ios::binary) << bytes;
  return damage;
}

}  // namespace torture
