// SPDX-License-Identifier: Apache-2.0
// hydramix verify, and damage to every kind of file that we write: none is accepted in silence.
#include <nlohmann/json.hpp>

#include <fstream>
#include <random>

#include "base/json_reader.h"
#include "support/tiny_run.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using test::contains;
using test::run_here;
using test::TemporaryFolder;

// A run, token shards and a .pt file, made once.
struct OurFiles {
  TemporaryFolder folder;
  fs::path run_folder = folder / "run", shards = folder / "shards", archive = folder / "w.pt";
  OurFiles() {
    test::make_language_run(run_folder);
    test::make_shards(folder.path());
    const auto r = run_here("convert " + (run_folder / "model").string() + " " + archive.string());
    EXPECT_EQ(r.code, 0) << r.err;
  }
};
const OurFiles& our_files() {
  static const OurFiles made;
  return made;
}

std::string line_about(const std::string& text, const std::string& file) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (contains(line, file)) return line;
  return "";
}

// Runs it on a path and returns the exit code.
int verified(const fs::path& path, std::string& output) {
  const auto r = run_here("verify " + path.string());
  output = r.out + r.err;
  return r.code;
}

TEST(Verify, SaysOkForEveryFileThatHasAChecksum) {
  const auto& files = our_files();
  const auto r =
      run_here("verify " + files.run_folder.string() + " " + files.shards.string() + " " +
               files.archive.string() + " " + (files.folder / "vocab.txt").string());
  EXPECT_EQ(r.code, 0) << r.out << r.err;
  for (const std::string file :
       {"run/config.json", "run/data.json", "run/tokenizer.json", "run/model/config.json",
        "run/model/model.safetensors", "run/model/tokenizer.json", "best.safetensors",
        "step-0000000004.safetensors", "shards/index.json", "shards/shard-00001.bin", "w.pt"})
    EXPECT_TRUE(line_about(r.out, file).starts_with("ok ")) << file << "\n" << r.out;
  for (const std::string file : {"metrics.jsonl", "vocab.txt"})
    EXPECT_TRUE(line_about(r.out, file).starts_with("no checksum ")) << file << "\n" << r.out;
  EXPECT_TRUE(contains(r.out, " 0 damaged, ")) << r.out;
}

TEST(Verify, NamesTheDamageAndExitsWithOne) {
  const auto& files = our_files();
  TemporaryFolder folder;
  fs::copy(files.run_folder / "model", folder / "model", fs::copy_options::recursive);
  auto bytes = read_file(folder / "model/model.safetensors");
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  write_file(folder / "model/model.safetensors", bytes);
  const auto r = run_here("verify " + (folder / "model").string());
  EXPECT_EQ(r.code, 1) << r.out;
  EXPECT_TRUE(contains(line_about(r.out, "model.safetensors"), "tensor \"")) << r.out;
  EXPECT_TRUE(contains(r.out, "2 ok, 1 damaged, 0 without")) << r.out;
  const auto used = run_here("evaluate --data language " + (folder / "model").string());
  EXPECT_EQ(used.code, 1) << used.out;
  EXPECT_TRUE(contains(used.err, "model.safetensors: tensor \"")) << used.err;
  EXPECT_EQ(run_here("verify " + (folder / "absent").string()).code, 1);
  EXPECT_EQ(run_here("verify").code, 2);
}

TEST(Verify, AcceptsAnArchiveOfPyTorchWithoutTensors) {
  TemporaryFolder folder;
  const auto bytes =
      read_file(fs::path(HYDRAMIX_SOURCE_DIR) / "fuzz/corpus/torch_archive/only_a_call");
  write_file(folder / "training_args.bin", bytes);
  std::string output;
  EXPECT_EQ(verified(folder.path(), output), 0) << output;
  write_file(folder / "training_args.bin", bytes.substr(0, bytes.size() / 2));
  EXPECT_EQ(verified(folder.path(), output), 1) << output;
}

TEST(Verify, AMissingShardIsDamage) {
  const auto& files = our_files();
  TemporaryFolder folder;
  fs::copy(files.shards, folder / "shards", fs::copy_options::recursive);
  fs::remove(folder / "shards/shard-00001.bin");
  const auto r = run_here("verify " + (folder / "shards").string());
  EXPECT_EQ(r.code, 1);
  EXPECT_TRUE(contains(r.out, "shard-00001.bin: is missing")) << r.out;
}

// Without the wait for the disk of write_file().
void overwrite(const fs::path& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

class Damage : public ::testing::TestWithParam<const char*> {};

// The part of a JSON file that we read must differ for damage to count.
bool means_the_same(const std::string& name, const std::string& good, const std::string& damaged) {
  if (!name.ends_with(".json")) return false;
  const auto a = try_parse_json<nlohmann::json>(good), b = try_parse_json<nlohmann::json>(damaged);
  if (name.ends_with("tokenizer.json")) {
    // Hugging Face's file has keys that we do not use. Of the vocabulary every byte counts.
    if (b.is_discarded() || !b.is_object() || !b.contains("model")) return false;
    return a["model"]["vocab"] == b["model"]["vocab"];
  }
  return a == b;
}

TEST_P(Damage, IsNeverAcceptedInSilence) {
  const auto& files = our_files();
  TemporaryFolder folder;
  fs::copy(files.folder.path(), folder.path(),
           fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const std::string name = GetParam();
  const auto path = folder / name;
  const std::string good = read_file(path);
  std::string output;
  ASSERT_EQ(verified(path, output), 0) << output;
  std::mt19937 random(1);
  int accepted = 0, tried = 0;
  for (int i = 0; i < 200; ++i) {
    auto bytes = good;
    const std::size_t at = i < 16 ? std::size_t(i) % bytes.size() : random() % bytes.size();
    bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8);
    if (means_the_same(name, good, bytes)) continue;
    overwrite(path, bytes);
    ++tried;
    if (verified(path, output) == 1) continue;
    ++accepted;
    ADD_FAILURE() << name << ": byte " << at << " of " << bytes.size() << "\n" << output;
  }
  EXPECT_GT(tried, 50);
  EXPECT_EQ(accepted, 0);
  for (int i = 1; i < 8; ++i) {
    overwrite(path, good.substr(0, good.size() * static_cast<std::size_t>(i) / 8));
    EXPECT_EQ(verified(path, output), 1) << name << " cut short\n" << output;
  }
}

INSTANTIATE_TEST_SUITE_P(, Damage,
                         ::testing::Values("run/model/model.safetensors", "run/model/config.json",
                                           "run/model/tokenizer.json", "run/tokenizer.json",
                                           "run/config.json", "run/data.json",
                                           "run/checkpoints/best.safetensors", "w.pt",
                                           "shards/shard-00000.bin", "shards/index.json"));

}  // namespace
}  // namespace hydramix
