// SPDX-License-Identifier: Apache-2.0
// Folders of real data: which are recognised, and what is refused before anything is trained.
#include "reproduce/data_folders.h"

#include "base/atomic_file.h"
#include "data/token_shards.h"
#include "hydramix/error.h"
#include "images/drawn_images.h"
#include "images/packed_images.h"
#include "images/png.h"
#include "language/language_documents.h"
#include "reproduce/reproduce.h"
#include "support/expect.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

void put_file(const fs::path& path, const std::string& contents) {
  fs::create_directories(path.parent_path());
  write_file(path, contents);
}

void put_shards(const fs::path& folder, const Tokenizer& tokenizer, int32_t id) {
  fs::create_directories(folder);
  ShardIndex index;
  index.tokenizer = tokenizer.fingerprint();
  index.vocabulary = tokenizer.size();
  TokenShardsWriter writer(folder, index, 1000);
  for (int i = 0; i < 4; ++i) writer.add(std::vector<int32_t>{id, 7, 8, 9});
  writer.finish();
}

void put_text(const fs::path& folder, int32_t id = 6) {
  fs::create_directories(folder);
  const auto tokenizer = language_tokenizer();
  tokenizer.save(folder / "tokenizer.json");
  put_shards(folder / "train", tokenizer, id);
  put_shards(folder / "valid", tokenizer, 5);
}

void put_glue(const fs::path& folder) {
  for (const char* file : {"train.tsv", "dev.tsv"}) {
    put_file(folder / "SST-2" / file, "sentence\tlabel\nfine \t1\nbad \t0\n");
    put_file(folder / "QNLI" / (std::string(file) + ".xz"), "packed files are not read");
  }
}

// As the official archive of CIFAR-10 as pictures: train/ and test/.
void put_classes(const fs::path& folder, const std::string& split, int count = 2) {
  for (int i = 0; i < count; ++i)
    for (const char* name : {"cat", "dog"})
      put_file(folder / split / name / (std::to_string(i) + ".png"),
               encode_png(draw_image({1, ImageSplit::kTrain, i}, {16, 16})));
}

TEST(DataFolders, AreRecognisedByTheirContents) {
  const test::TemporaryFolder folder;
  put_text(folder / "all/wiki");
  put_glue(folder / "all/glue");
  put_classes(folder / "all/cifar", "train");
  put_classes(folder / "all/cifar", "test");
  for (const bool one_by_one : {false, true}) {
    std::vector<std::string> names;
    for (const char* name : {"wiki", "glue", "cifar"})
      names.push_back((folder / "all" / name).string());
    auto data =
        find_data_folders(one_by_one ? names : std::vector<std::string>{(folder / "all").string()});
    EXPECT_EQ(data.text.train, (folder / "all/wiki/train").string());
    EXPECT_EQ(data.text.validation, (folder / "all/wiki/valid").string());
    EXPECT_EQ(data.text.vocab, (folder / "all/wiki/tokenizer.json").string());
    EXPECT_EQ(data.glue_tasks, std::vector<std::string>{"SST-2"});
    EXPECT_EQ(data.images, (folder / "all/cifar").string());
    open_text(data);
    open_glue(data);
    open_images(data);
    EXPECT_EQ(data.text.vocabulary, language_tokenizer().size());
    EXPECT_EQ(data.training_images, 4);
    EXPECT_EQ(data.images_held_out, 0);
  }
}

// MNIST's test set alone, or class folders: a share is held out.
TEST(DataFolders, WithOneSplitOfImagesHoldOutAShare) {
  const test::TemporaryFolder folder;
  put_classes(folder / "sets", "flowers", 10);
  auto data = find_data_folders({(folder / "sets/flowers").string()});
  open_images(data);
  EXPECT_EQ(data.images_held_out, 0.2);
  EXPECT_EQ(data.training_images, 16);
  put_file(folder / "mnist/t10k-images-idx3-ubyte", "");
  EXPECT_EQ(find_data_folders({(folder / "mnist").string()}).images, (folder / "mnist").string());
}

TEST(DataFolders, HaveFingerprintsOfTheirContents) {
  const test::TemporaryFolder folder;
  const auto fingerprints = [&] {
    auto data = find_data_folders({folder.path().string()});
    open_text(data);
    open_glue(data);
    open_images(data);
    return std::vector<std::string>{data.text_fingerprint, data.glue_fingerprint,
                                    data.images_fingerprint};
  };
  put_text(folder / "wiki");
  put_glue(folder / "glue");
  put_classes(folder / "images", "train");
  put_classes(folder / "images", "val");
  const auto before = fingerprints();
  EXPECT_EQ(fingerprints(), before);
  fs::remove_all(folder / "wiki");
  put_text(folder / "wiki", 4);
  put_file(folder / "glue/SST-2/dev.tsv", "sentence\tlabel\nfine \t1\nbad \t1\n");
  put_file(folder / "images/val/cat/0.png",
           encode_png(draw_image({2, ImageSplit::kTrain, 0}, {16, 16})));
  const auto after = fingerprints();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_NE(after[i], before[i]) << i;
}

class RefusedData : public ::testing::Test {
 protected:
  ReproducePlan plan(const std::string& table, const fs::path& data) {
    ReproduceOptions options;
    options.scale = "small";
    options.tables = {table};
    options.data = {data.string()};
    options.out = (folder_ / "out").string();
    return plan_reproduction(options);
  }
  test::TemporaryFolder folder_;
};

TEST_F(RefusedData, OfTextIsNamed) {
  put_text(folder_ / "wiki");
  EXPECT_EQ(plan("table3", folder_ / "wiki").data.text.train, (folder_ / "wiki/train").string());
  EXPECT_THROW_WITH(plan("table5", folder_ / "wiki"), UsageError, "table5 at scale small needs");
  fs::resize_file(folder_ / "wiki/train/shard-00000.bin", 20);
  EXPECT_THROW_WITH(plan("table3", folder_ / "wiki"), Error, "wiki/train/shard-00000.bin");
  put_text(folder_ / "other");
  put_file(folder_ / "other/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n");
  EXPECT_THROW_WITH(plan("table3", folder_ / "other"), Error, "vocab.txt");
}

TEST_F(RefusedData, OfGlueIsNamed) {
  put_text(folder_ / "data/wiki");
  put_glue(folder_ / "data/glue");
  put_file(folder_ / "data/glue/SST-2/dev.tsv", "sentence\tlabel\nfine\t7\n");
  EXPECT_THROW_WITH(plan("table2", folder_ / "data"), Error, "SST-2/dev.tsv: line 2");
}

TEST_F(RefusedData, OfImagesIsNamed) {
  put_classes(folder_ / "images", "train");
  EXPECT_THROW_WITH(plan("table5", folder_ / "images"), Error, "has train/ but none of val/");
  put_classes(folder_ / "images", "val");
  EXPECT_EQ(plan("table5", folder_ / "images").data.training_images, 4);
  fs::create_directories(folder_ / "images/train/empty");
  EXPECT_THROW_WITH(plan("table5", folder_ / "images"), Error,
                    "images/train/empty: has no JPEG or PNG files");
  fs::create_directories(folder_ / "single/train");
  fs::rename(folder_ / "images/train/cat", folder_ / "single/train/cat");
  EXPECT_THROW_WITH(plan("table5", folder_ / "single"), Error, "has only one class, cat");
  put_file(folder_ / "cifar/data_batch_1.bin", "short");
  EXPECT_THROW_WITH(plan("table5", folder_ / "cifar"), Error, "data_batch_1.bin: has 5 bytes");
  EXPECT_FALSE(fs::exists(folder_ / "out")) << "something was written";
}

TEST_F(RefusedData, TwoFoldersOfOneKind) {
  put_classes(folder_ / "sets/a", "train");
  put_classes(folder_ / "sets/b", "train");
  EXPECT_THROW_WITH(plan("table5", folder_ / "sets"), UsageError, "hold images. Give one of them");
}

}  // namespace
}  // namespace hydramix
