// SPDX-License-Identifier: Apache-2.0
#include "train/checkpoint.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>

#include "base/read_file.h"
#include "hydramix/error.h"
#include "hydramix/tensor_file.h"
#include "support/expect.h"

namespace hydramix {
namespace {

Checkpoint example(int64_t step) {
  torch::manual_seed(static_cast<uint64_t>(step));
  Checkpoint checkpoint;
  checkpoint.step = step;
  checkpoint.updates = step - 1;
  checkpoint.skipped = 1;
  checkpoint.evaluated = step / 2;
  checkpoint.best_loss = 0.1 + 0.2;  // has no short decimal form
  checkpoint.stale = 2;
  checkpoint.tensors = {{"weights.a", torch::randn({3, 5})}, {"mean.a", torch::randn({3, 5})}};
  return checkpoint;
}

void expect_same(const Checkpoint& a, const Checkpoint& b) {
  EXPECT_EQ(a.step, b.step);
  EXPECT_EQ(a.updates, b.updates);
  EXPECT_EQ(a.skipped, b.skipped);
  EXPECT_EQ(a.evaluated, b.evaluated);
  EXPECT_EQ(a.best_loss, b.best_loss);
  EXPECT_EQ(a.stale, b.stale);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (const auto& [name, tensor] : a.tensors)
    EXPECT_TRUE(torch::equal(tensor, b.tensors.at(name))) << name;
}

TEST(CheckpointFile, RoundTripIsBitExact) {
  test::TemporaryFolder folder;
  write_checkpoint(folder / "c.safetensors", example(7));
  expect_same(read_checkpoint(folder / "c.safetensors"), example(7));
  auto fresh = example(8);
  fresh.best_loss = std::numeric_limits<double>::infinity();
  write_checkpoint(folder / "d.safetensors", fresh);
  expect_same(read_checkpoint(folder / "d.safetensors"), fresh);
}

TEST(CheckpointFile, EveryDamagedByteAndEveryLengthIsNoticed) {
  test::TemporaryFolder folder;
  const auto path = folder / "c.safetensors";
  write_checkpoint(path, example(7));
  const std::string sound = read_file(path);
  for (std::size_t i = 0; i < sound.size(); ++i) {
    auto damaged = sound;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x04);
    std::ofstream(path, std::ios::binary) << damaged;
    EXPECT_THROW(read_checkpoint(path), Error) << "byte " << i << " of " << sound.size();
  }
  for (std::size_t size = 0; size < sound.size(); size += 7) {
    std::ofstream(path, std::ios::binary) << sound.substr(0, size);
    EXPECT_THROW(read_checkpoint(path), Error) << "cut to " << size;
  }
}

TEST(CheckpointFile, AMissingNumberIsAnError) {
  test::TemporaryFolder folder;
  const auto path = folder / "c.safetensors";
  save_tensors(path, example(7).tensors,
               {{"format", "hydramix checkpoint 2"},
                {"step", "7"},
                {"updates", "7"},
                {"skipped", "0"},
                {"evaluated", "7"}});
  EXPECT_THROW_WITH(read_checkpoint(path), Error, "metadata 'best_loss' is missing");
}

// A file as version 1 wrote it, with CRC-32 sums of its own.
std::string checkpoint_of_version_1() {
  const std::string header =
      R"({"__metadata__":{"best_loss":"3fd3333333333334","crc32 of the metadata":"2254406478",)"
      R"("crc32 weights.a":"775923062","evaluated":"3","format":"hydramix checkpoint 1",)"
      R"("skipped":"1","step":"7","updates":"6"},)"
      R"("weights.a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
  const float values[] = {1, 2};
  std::string file;
  for (int i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return file + header + std::string(reinterpret_cast<const char*>(values), sizeof values);
}

TEST(CheckpointFile, ThoseOfVersion1AreReadAndChecked) {
  test::TemporaryFolder folder;
  const auto path = folder / "c.safetensors";
  std::ofstream(path, std::ios::binary) << checkpoint_of_version_1();
  const auto checkpoint = read_checkpoint(path);
  EXPECT_EQ(checkpoint.step, 7);
  EXPECT_EQ(checkpoint.best_loss, 0.1 + 0.2);
  EXPECT_EQ(checkpoint.tensors.at("weights.a")[1].item<float>(), 2);
  auto damaged = checkpoint_of_version_1();
  damaged.back() = static_cast<char>(damaged.back() ^ 1);
  std::ofstream(path, std::ios::binary) << damaged;
  EXPECT_THROW_WITH(read_checkpoint(path), Error, "the checksum of 'weights.a' is wrong");
}

TEST(CheckpointFolderTest, KeepsTheNewestAndTheBest) {
  test::TemporaryFolder folder;
  {
    CheckpointFolder checkpoints(folder.path(), 2);
    for (const int64_t step : {1, 2, 10, 20}) checkpoints.save(example(step), step == 2);
    checkpoints.wait();
    expect_same(*checkpoints.newest([](const std::string& m) { FAIL() << m; }), example(20));
    expect_same(read_checkpoint(checkpoints.best()), example(2));
  }
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
    files += entry.is_regular_file();
  EXPECT_EQ(files, 3u);
}

TEST(CheckpointFolderTest, ADamagedNewestIsSkippedAndReported) {
  test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 3);
  for (const int64_t step : {1, 2, 3}) checkpoints.save(example(step), false);
  checkpoints.wait();
  std::filesystem::resize_file(folder / "step-0000000003.safetensors", 100);
  std::vector<std::string> said;
  expect_same(*checkpoints.newest([&](const std::string& m) { said.push_back(m); }), example(2));
  ASSERT_EQ(said.size(), 1u);
  EXPECT_NE(said[0].find("step-0000000003.safetensors"), std::string::npos) << said[0];
}

TEST(CheckpointFolderTest, NewFilesOutrankDamagedOnes) {
  test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 1);
  checkpoints.save(example(9), true);
  checkpoints.wait();
  for (const std::string name : {"step-0000000009.safetensors", "best.safetensors"})
    std::ofstream(folder / name, std::ios::binary) << "damaged";
  std::vector<std::string> said;
  EXPECT_FALSE(checkpoints.newest([&](const std::string& m) { said.push_back(m); }));
  ASSERT_EQ(said.size(), 3u);
  EXPECT_EQ(said[2], "no checkpoint is sound: starting from the beginning");
  checkpoints.save(example(4), false);
  checkpoints.wait();
  expect_same(*checkpoints.newest([](const std::string& m) { FAIL() << m; }), example(4));
  EXPECT_TRUE(std::filesystem::exists(folder / "step-0000000009.safetensors.damaged"));
}

TEST(CheckpointFolderTest, TheBestIsTheLastResort) {
  test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 1);
  checkpoints.save(example(3), true);
  checkpoints.save(example(5), false);
  checkpoints.wait();
  std::filesystem::resize_file(folder / "step-0000000005.safetensors", 10);
  expect_same(*checkpoints.newest([](const std::string&) {}), example(3));
}

TEST(CheckpointFolderTest, LeftoversOfAKilledWriterAreRemoved) {
  test::TemporaryFolder folder;
  std::ofstream(folder / "step-0000000003.safetensors.tmp.123.0") << "half";
  const CheckpointFolder checkpoints(folder.path(), 3);
  EXPECT_TRUE(std::filesystem::exists(folder / "step-0000000003.safetensors.tmp.123.0"))
      << "a reader must not disturb a writer";
  checkpoints.prepare();
  EXPECT_FALSE(std::filesystem::exists(folder / "step-0000000003.safetensors.tmp.123.0"));
  EXPECT_FALSE(checkpoints.newest([](const std::string& m) { FAIL() << m; }));
}

TEST(CheckpointFolderTest, AFailedWriteIsAnErrorAndKeepsTheLastGoodOne) {
  test::TemporaryFolder folder;
  CheckpointFolder checkpoints(folder.path(), 3);
  checkpoints.save(example(1), false);
  checkpoints.wait();
  // A folder in the place of the file cannot be overwritten, not even by root.
  std::filesystem::create_directory(folder / "step-0000000002.safetensors");
  checkpoints.save(example(2), false);
  EXPECT_THROW_WITH(checkpoints.wait(), Error, "step-0000000002.safetensors");
  ::rmdir((folder / "step-0000000002.safetensors").c_str());
  expect_same(*checkpoints.newest([](const std::string& m) { FAIL() << m; }), example(1));
}

}  // namespace
}  // namespace hydramix
