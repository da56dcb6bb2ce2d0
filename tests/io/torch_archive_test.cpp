// SPDX-License-Identifier: Apache-2.0
// PyTorch checkpoints: weights are found in every usual nesting, a round trip is bit-exact, and
// every damaged or hostile file is refused by name and reason.
#include "io/torch_archive.h"

#include <array>
#include <cstring>
#include <functional>
#include <random>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "io/stored_weights.h"
#include "io/zip_archive.h"
#include "support/expect.h"

namespace hydramix::torch_archive {
namespace {

using namespace std::string_literals;
using safetensors::DType;
using test::TemporaryFolder;

std::span<const std::byte> as_bytes(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}
std::string as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string zip(const Entries& entries, std::uint64_t largest_small = ZipWriter::kLargestSmall) {
  TemporaryFolder folder;
  AtomicFile file(folder / "a.zip");
  ZipWriter writer(file, largest_small);
  for (const auto& [name, data] : entries) writer.add(name, as_bytes(data));
  writer.finish();
  file.commit();
  return read_file(folder / "a.zip");
}

// The archive as PyTorch writes it when told to write no checksums.
std::string without_sums(std::string bytes) {
  bytes.resize(bytes.size() - 24);  // the comment, and its length
  bytes.replace(bytes.size() - 2, 2, 2, '\0');
  for (auto at = bytes.find("PK\1\2"); at != std::string::npos; at = bytes.find("PK\1\2", at + 1))
    bytes.replace(at + 16, 4, 4, '\0');
  return bytes;
}

std::string text(const std::string& t) {
  return "X"s + static_cast<char>(t.size()) + "\0\0\0"s + t;
}
std::string integer(std::int64_t number) {
  std::string out = "\x8a\x08";
  for (int i = 0; i < 8; ++i) out += static_cast<char>(number >> (8 * i));
  return out;
}
std::string tuple(const std::vector<std::int64_t>& numbers) {
  std::string out = "(";
  for (const auto number : numbers) out += integer(number);
  return out + "t";
}
std::string dict(const std::vector<std::pair<std::string, std::string>>& items) {
  std::string out = "}(";
  for (const auto& [key, value] : items) out += text(key) + value;
  return out + "u";
}

// A tensor over storage 0 of six float32, as Python pickles it.
struct Tensor {
  std::vector<std::int64_t> shape = {2, 3}, strides = {3, 1};
  std::int64_t offset = 0, count = 6;
  std::string type = "torch\nFloatStorage", key = "0";
  std::string how = "torch._utils\n_rebuild_tensor_v2";
  std::string pickled() const {
    return "c" + how + "\n((" + text("storage") + "c" + type + "\n" + text(key) + text("cpu") +
           integer(count) + "tQ" + integer(offset) + tuple(shape) + tuple(strides) +
           "\x89"
           "ccollections\nOrderedDict\n)RtR";
  }
};

const float kNumbers[] = {0, 1, 2, 3, 4, 5};
const std::string kStorage(reinterpret_cast<const char*>(kNumbers), sizeof kNumbers);

std::string archive(const std::string& program) {
  return zip({{"a/data.pkl", "\x80\x02" + program + "."}, {"a/data/0", kStorage}});
}

File parse_archive(const std::string& bytes, Selection selection = Selection::kWeights) {
  return File::parse(as_bytes(bytes), "w.pt", selection);
}

void expect_archive_refused(const std::string& bytes, const std::string& reason) {
  EXPECT_THROW_WITH(parse_archive(bytes), Error, "w.pt: ");
  EXPECT_THROW_WITH(parse_archive(bytes), Error, reason);
}
void expect_tensor_refused(const Tensor& tensor, const std::string& reason) {
  expect_archive_refused(archive(dict({{"w", tensor.pickled()}})), reason);
}

std::vector<std::string> names(const File& file) {
  std::vector<std::string> all;
  for (const auto& tensor : file.tensors()) all.push_back(tensor.name);
  return all;
}
using Names = std::vector<std::string>;

std::vector<float> floats(const TensorView& view) {
  std::vector<float> values(view.data.size() / sizeof(float));
  if (!values.empty()) std::memcpy(values.data(), view.data.data(), view.data.size());
  return values;
}

TEST(TorchArchive, ReadsTensorsWhateverTheirStrides) {
  const auto bytes =
      archive(dict({{"c", Tensor{}.pickled()},
                    {"t", Tensor{.shape = {3, 2}, .strides = {1, 3}}.pickled()},
                    {"s", Tensor{.shape = {2}, .strides = {3}, .offset = 1}.pickled()},
                    {"x", Tensor{.shape = {2, 2}, .strides = {0, 1}}.pickled()},
                    {"e", Tensor{.shape = {0, 4}, .strides = {4, 1}}.pickled()},
                    {"o", Tensor{.shape = {}, .strides = {}, .offset = 5}.pickled()}}));
  const auto file = parse_archive(bytes);
  ASSERT_EQ(names(file), (Names{"c", "e", "o", "s", "t", "x"}));
  EXPECT_EQ(floats(file.tensors()[0]), (std::vector<float>{0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::int64_t>{0, 4}));
  EXPECT_EQ(floats(file.tensors()[2]), (std::vector<float>{5}));
  EXPECT_EQ(floats(file.tensors()[3]), (std::vector<float>{1, 4}));
  EXPECT_EQ(floats(file.tensors()[4]), (std::vector<float>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(floats(file.tensors()[5]), (std::vector<float>{0, 1, 0, 1}));
}

TEST(TorchArchive, ReadsParametersAndNewerRebuildFunctions) {
  const std::string parameter =
      "ctorch._utils\n_rebuild_parameter\n(" + Tensor{}.pickled() + "\x88}tR";
  Tensor v3{.how = "torch._utils\n_rebuild_tensor_v3"};
  v3.type = "torch.storage\nUntypedStorage";
  v3.shape = {3};
  v3.strides = {1};
  v3.count = 24;
  std::string call = v3.pickled();
  call.replace(call.size() - 2, 2, "ctorch\nuint16\ntR");
  const auto bytes = archive(dict({{"p", parameter}, {"u", call}}));
  const auto file = parse_archive(bytes);
  ASSERT_EQ(names(file), (Names{"p", "u"}));
  EXPECT_EQ(file.tensors()[0].dtype, DType::kF32);
  EXPECT_EQ(file.tensors()[1].dtype, DType::kU16);
  EXPECT_EQ(file.tensors()[1].data.size(), 6u);
}

TEST(TorchArchive, FindsTheWeightsInTheUsualNestings) {
  const std::string t = Tensor{}.pickled();
  const auto weights = dict({{"model.a", t}, {"model.b", t}});
  const auto optimizer = dict({{"state", dict({{"0", t}})}});
  const auto plain = parse_archive(archive(dict({{"a", t}, {"n.b", t}})));
  EXPECT_EQ(names(plain), (Names{"a", "n.b"}));
  EXPECT_TRUE(plain.notes().empty());
  for (const std::string key : {"state_dict", "model", "model_state_dict"}) {
    const auto bytes = archive(dict({{"optimizer", optimizer}, {key, weights}}));
    const auto file = parse_archive(bytes);
    EXPECT_EQ(names(file), (Names{"a", "b"})) << key;
    ASSERT_EQ(file.notes().size(), 2u);
    EXPECT_EQ(file.notes()[0], "took the weights under \"" + key + "\" and left out optimizer");
    EXPECT_EQ(file.notes()[1], "removed \"model.\" from the names");
  }
  const auto composer = archive(
      dict({{"state", dict({{"model", weights}, {"optimizers", optimizer}})}, {"rng", "]"}}));
  EXPECT_EQ(names(parse_archive(composer)), (Names{"a", "b"}));
  EXPECT_EQ(names(parse_archive(composer, Selection::kEverything)),
            (Names{"state.model.model.a", "state.model.model.b", "state.optimizers.state.0"}));
  EXPECT_EQ(names(parse_archive(archive(optimizer))), (Names{"state.0"}));
}

TEST(TorchArchive, RemovesOnlyPrefixesThatAllNamesShare) {
  const std::string t = Tensor{}.pickled();
  EXPECT_EQ(
      names(parse_archive(archive(dict({{"module._orig_mod.a", t}, {"module._orig_mod.b", t}})))),
      (Names{"a", "b"}));
  EXPECT_EQ(names(parse_archive(archive(dict({{"model.a", t}, {"head.b", t}})))),
            (Names{"head.b", "model.a"}));
  EXPECT_EQ(names(parse_archive(archive(dict({{"model.", t}})))), (Names{"model."}));
}

TEST(TorchArchive, NamesWhatItSkipsAndFilesWithoutTensors) {
  const std::string t = Tensor{}.pickled(), evil = "cos\nsystem\n(" + text("true") + "tR";
  const auto bytes = archive(dict({{"w", t}, {"e", evil}, {"step", "K\x05"}}));
  const auto file = parse_archive(bytes);
  EXPECT_EQ(names(file), (Names{"w"}));
  ASSERT_EQ(file.notes().size(), 1u);
  EXPECT_EQ(file.notes()[0], "left out 2 values that are no tensors: e, step");
  expect_archive_refused(archive(dict({{"step", "K\x05"}})),
                         "holds no tensors, only values that are none: step");
  expect_archive_refused(archive(evil), "only an object of \"os.system\"");
  EXPECT_EQ(names(parse_archive(archive(evil), Selection::kAnything)), Names{});
  expect_archive_refused(archive(dict({{"s", "ctorch._utils\n_rebuild_sparse_tensor\n)R"}})),
                         "\"s\" is a tensor made by \"torch._utils._rebuild_sparse_tensor\"");
}

TEST(TorchArchive, RefusesTensorsThatDoNotFitTheirStorage) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 62;
  expect_tensor_refused({.shape = {2, 4}, .strides = {4, 1}}, "reaches beyond the 6 elements");
  expect_tensor_refused({.offset = 1}, "reaches beyond the 6 elements");
  expect_tensor_refused({.offset = kHuge}, "reaches beyond");
  expect_tensor_refused({.strides = {kHuge, kHuge}}, "reaches beyond");
  expect_tensor_refused({.shape = {kHuge, 8}, .strides = {0, 0}}, "overflows 63 bits");
  expect_tensor_refused({.shape = {1 << 30}, .strides = {0}}, "views of each other or expanded");
  expect_tensor_refused({.shape = {-1, 3}}, "sizes hold something other than integers");
  expect_tensor_refused({.strides = {-3, 1}}, "strides hold something other");
  expect_tensor_refused({.offset = -1}, "offset is no integer from 0 on");
  expect_tensor_refused({.shape = {6}}, "has 1 sizes but 2 strides");
  expect_tensor_refused({.count = 7}, "is said to hold 7 elements of 4 bytes");
  expect_tensor_refused({.count = -1}, "is said to hold -1 elements");
  expect_tensor_refused({.type = "torch\nDoubleStorage"}, "hold 6 elements of 8 bytes");
  expect_tensor_refused({.type = "torch\nComplexFloatStorage"}, "\"ComplexFloatStorage\"");
  expect_tensor_refused({.type = "torch.storage\nUntypedStorage"}, "nothing says the type");
  expect_tensor_refused({.key = "1"}, "storage \"1\" is not in the archive");
  expect_archive_refused(archive(dict({{"w", "ctorch._utils\n_rebuild_tensor_v2\n)R"}})),
                         "from only 0 arguments");
  expect_archive_refused(archive(dict({{"w", "ctorch._utils\n_rebuild_tensor_v2\n(NNNNtR"}})),
                         "names no storage");
}

TEST(TorchArchive, RefusesEndlessNesting) {
  const std::string endless = "w.pt: its values are nested without end";
  EXPECT_THROW_WITH(parse_archive(archive("}q\0"s + text("a") + "h\0s"s)), Error, endless);
  // Each list holds the one before twice: a tree of 2^30 leaves in 200 bytes.
  std::string bomb = "]q\0"s;
  for (char i = 0; i < 30; ++i) bomb += "]q"s + char(i + 1) + "(h" + i + "h" + i + "e";
  EXPECT_THROW_WITH(parse_archive(archive("(" + bomb + "t")), Error, endless);
  EXPECT_THROW_WITH(parse_archive(archive(dict(
                        {{"a.b", Tensor{}.pickled()}, {"a", dict({{"b", Tensor{}.pickled()}})}}))),
                    Error, "tensor \"a.b\" occurs twice");
}

TEST(TorchArchive, RefusesOtherFormatsAndSaysHowToSaveAgain) {
  expect_archive_refused("", "is empty");
  expect_archive_refused("\x80", "is a bare pickle");
  expect_archive_refused("\x80\x02}.", "torch.save(torch.load(");
  expect_archive_refused("\x80\x02\x8a\nl\xfc\x9c\x46\xf9 j\xa8P\x19.", "of PyTorch before 1.6");
  expect_archive_refused("version https://git-lfs", "no PyTorch checkpoint");
  expect_archive_refused(zip({{"a/readme", "x"}}), "without data.pkl");
  auto packed = without_sums(archive(dict({})));
  packed[packed.find("PK\1\2") + 10] = 8;
  expect_archive_refused(packed, "its entry \"a/data.pkl\" is compressed");
  expect_archive_refused(zip({{"a/data.pkl", "x"}, {"b/data.pkl", "x"}}), "holds two checkpoints");
  expect_archive_refused(zip({{"a/data.pkl", "\x80\x02}."}, {"a/byteorder", "big"}}),
                         "\"big\"-endian");
  expect_archive_refused(zip({{"a/data.pkl", "\x80\x02}."}, {"a/data.pkl", "\x80\x02}."}}),
                         "occurs twice");
}

TEST(ZipArchive, LargeNumbersAreWrittenAndReadAsZip64) {
  const auto bytes = zip({{"one", "111"}, {"two", std::string(300, '2')}, {"", ""}}, 10);
  EXPECT_NE(bytes.find("PK\6\6"), std::string::npos);
  const auto entries = read_zip(as_bytes(bytes), "z");
  ASSERT_EQ(entries.size(), 3u);
  EXPECT_EQ(entries[0].name, "one");
  EXPECT_EQ(as_text(entries[0].data), "111");
  EXPECT_EQ(as_text(entries[1].data), std::string(300, '2'));
  EXPECT_TRUE(entries[2].data.empty());
  for (const auto& entry : entries)
    EXPECT_EQ((as_text(entry.data).empty()
                   ? 0
                   : reinterpret_cast<const char*>(entry.data.data()) - bytes.data()) %
                  static_cast<std::ptrdiff_t>(ZipWriter::kAlignment),
              0);
}

TEST(ZipArchive, RefusesEncryptionAndOverlap) {
  const auto bytes = without_sums(zip({{"one", "1234567890"}, {"two", "1234567890"}}));
  const std::size_t central = bytes.find("PK\1\2"), second = bytes.find("PK\1\2", central + 1);
  const auto changed = [&](std::size_t at, char value) {
    auto copy = bytes;
    copy[at] = value;
    return copy;
  };
  const auto expect = [&](const std::string& file, const std::string& reason) {
    EXPECT_THROW_WITH(read_zip(as_bytes(file), "z.zip"), Error, reason);
  };
  EXPECT_EQ(read_zip(as_bytes(bytes), "z.zip").size(), 2u);
  expect(changed(central + 8, 1), "\"one\" is encrypted");
  expect(changed(central + 20, 9), "in 9 bytes instead of 10");
  expect(changed(second + 42, 0), "another name in its own header");
  expect(changed(second + 42, 1), "there is no entry at 1");
  expect(changed(second + 45, 127), "beyond the");
  expect(changed(bytes.size() - 22, 'X'), "directory at the end of the zip archive is missing");
  expect(changed(bytes.size() - 12, 9), "cannot hold");
  // The first entry grows over the second.
  auto grown = changed(central + 20, 70);
  grown[central + 24] = 70;
  expect(grown, "\"one\" and \"two\" overlap");
}

TEST(ZipArchive, EveryChangedByteOfOurArchiveIsNoticed) {
  const auto bytes = zip({{"a/one", "1234567890"}, {"a/two", "abc"}});
  for (const auto& entry : read_zip(as_bytes(bytes), "z.zip")) EXPECT_TRUE(entry.checked);
  for (std::size_t at = 0; at < bytes.size(); ++at)
    for (const char change : {'\1', '\x20', '\x80'}) {
      auto damaged = bytes;
      damaged[at] = static_cast<char>(damaged[at] ^ change);
      EXPECT_THROW(read_zip(as_bytes(damaged), "z.zip"), Error) << "byte " << at;
    }
}

TEST(ZipArchive, ChecksumsOfOtherProgramsMustMatchIfTheyAreThere) {
  auto bytes = zip({{"one", "1234567890"}, {"two", ""}});
  bytes.resize(bytes.size() - 24);  // zip's own checksums remain
  bytes.replace(bytes.size() - 2, 2, 2, '\0');
  EXPECT_TRUE(read_zip(as_bytes(bytes), "z.zip")[0].checked);
  auto damaged = bytes;
  damaged[damaged.find("1234567890")] = '0';
  EXPECT_THROW_WITH(read_zip(as_bytes(damaged), "z.zip"), Error,
                    "zip entry \"one\": the checksum of its 10 bytes is");
  const auto bare = without_sums(zip({{"one", "1234567890"}}));
  EXPECT_FALSE(read_zip(as_bytes(bare), "z.zip")[0].checked);
}

TEST(TorchArchive, WritesOnlyWhatItCanRead) {
  const std::string data(4, 'x');
  TemporaryFolder folder;
  const auto shape = [](std::size_t dimensions) {
    return std::vector<std::int64_t>(dimensions, 1);
  };
  torch_archive::write(folder / "w.pt",
                       {{std::string(1000, 'n'), DType::kF32, shape(64), as_bytes(data)}});
  EXPECT_EQ(File::open(folder / "w.pt").tensors()[0].shape.size(), 64u);
  const auto refuse = [&](const std::vector<TensorView>& tensors, const std::string& reason) {
    EXPECT_THROW_WITH(torch_archive::write(folder / "x.pt", tensors), Error, reason);
    EXPECT_FALSE(std::filesystem::exists(folder / "x.pt"));
  };
  refuse({{"w", DType::kF32, shape(65), as_bytes(data)}}, "has 65 dimensions, PyTorch takes 64");
  refuse({{std::string(1001, 'n'), DType::kF32, {1}, as_bytes(data)}}, "the name has 1001 bytes");
  std::vector<TensorView> many;
  for (int i = 0; i < 170'000; ++i)
    many.push_back({std::to_string(i), DType::kF32, {1}, as_bytes(data)});
  refuse(many, "so it is not written: write a .safetensors file");
  many.resize(50'000);
  torch_archive::write(folder / "many.pt", many);
  EXPECT_EQ(File::open(folder / "many.pt").tensors().size(), 50'000u);
}

std::vector<TensorView> every_dtype(std::vector<std::string>& data) {
  constexpr DType kAll[] = {DType::kBool,   DType::kU8,  DType::kI8,   DType::kU16, DType::kI16,
                            DType::kU32,    DType::kI32, DType::kU64,  DType::kI64, DType::kF8E4M3,
                            DType::kF8E5M2, DType::kF16, DType::kBF16, DType::kF32, DType::kF64};
  std::mt19937 random(3);
  std::vector<TensorView> views;
  data.resize(std::size(kAll));
  for (std::size_t i = 0; i < std::size(kAll); ++i) {
    // Random bytes: among the floats are NaNs of every payload.
    for (std::size_t j = 0; j < 64 * safetensors::dtype_size(kAll[i]); ++j)
      data[i] += static_cast<char>(random());
    views.push_back(
        {std::string(safetensors::dtype_name(kAll[i])), kAll[i], {4, 16}, as_bytes(data[i])});
  }
  data.push_back("\x01\0\xc0\x7f\xff\xff\xff\xff"s);  // two NaNs with payloads
  views.push_back({"nan", DType::kF32, {2}, as_bytes(data.back())});
  views.push_back({"", DType::kF32, {0, 3}, {}});
  views.push_back({"scalar", DType::kF32, {}, as_bytes(data.back()).first(4)});
  return views;
}

TEST(TorchArchive, RoundTripsBitForBit) {
  TemporaryFolder folder;
  std::vector<std::string> data;
  data.reserve(32);
  const auto views = every_dtype(data);
  const safetensors::Metadata metadata = {{"format", "pt"}, {"é", "\"\n"}};
  safetensors::write(folder / "a.safetensors", views, metadata);
  const auto first = open_weights(folder / "a.safetensors");
  torch_archive::write(folder / "b.pt", first.tensors, first.metadata);
  const auto second = open_weights(folder / "b.pt");
  ASSERT_EQ(second.tensors.size(), views.size());
  safetensors::write(folder / "c.safetensors", second.tensors, second.metadata);
  EXPECT_TRUE(read_file(folder / "a.safetensors") == read_file(folder / "c.safetensors"));
  torch_archive::write(folder / "d.pt", first.tensors, first.metadata);
  EXPECT_TRUE(read_file(folder / "b.pt") == read_file(folder / "d.pt"));
}

TEST(TorchArchive, TensorsOverTheSameBytesShareAStorage) {
  TemporaryFolder folder;
  const std::string data(4000, 'x');
  torch_archive::write(folder / "w.pt", {{"a", DType::kF32, {1000}, as_bytes(data)},
                                         {"b", DType::kF32, {10, 100}, as_bytes(data)}});
  EXPECT_LT(std::filesystem::file_size(folder / "w.pt"), 6000u);
  EXPECT_EQ(File::open(folder / "w.pt").tensors().size(), 2u);
  EXPECT_THROW_WITH(
      torch_archive::write(folder / "v.pt", {{"a", DType::kF32, {999}, as_bytes(data)}}), Error,
      "does not take the 4000 bytes");
  EXPECT_FALSE(std::filesystem::exists(folder / "v.pt"));
}

TEST(Checkpoint, IsRecognisedByItsContents) {
  TemporaryFolder folder;
  const std::string data(4, 'x');
  const std::vector<TensorView> views = {{"a", DType::kF32, {1}, as_bytes(data)}};
  torch_archive::write(folder / "misnamed.safetensors", views);
  safetensors::write(folder / "misnamed.pt", views);
  EXPECT_EQ(open_weights(folder / "misnamed.safetensors").tensors.at(0).name, "a");
  EXPECT_EQ(open_weights(folder / "misnamed.pt").tensors.at(0).name, "a");
  EXPECT_THROW_WITH(open_weights(folder.path()), Error, "is a folder without model.safetensors");
  torch_archive::write(folder / "pytorch_model.bin", views);
  EXPECT_EQ(open_weights(folder.path()).path.filename(), "pytorch_model.bin");
  safetensors::write(folder / "model.safetensors", views);
  EXPECT_EQ(open_weights(folder.path()).path.filename(), "model.safetensors");
  write_file(folder / "page.pt", "<!DOCTYPE html>");
  EXPECT_THROW_WITH(open_weights(folder / "page.pt"), Error, "is neither a safetensors file nor");
  EXPECT_THROW_WITH(open_weights(folder / "absent.pt"), Error, "cannot be opened");
}

TEST(TorchArchive, ReadsExactlyTheValidFilesOfTheFuzzersCorpus) {
  const std::filesystem::path root(HYDRAMIX_SOURCE_DIR);
  int valid = 0, invalid = 0;
  for (const auto& file : std::filesystem::directory_iterator(root / "fuzz/corpus/torch_archive")) {
    const std::string name = file.path().filename();
    if (name.starts_with("ok_")) {
      ++valid;
      EXPECT_NO_THROW(EXPECT_FALSE(File::open(file.path()).tensors().empty())) << name;
    } else {
      ++invalid;
      EXPECT_THROW_WITH(File::open(file.path()), Error, name);
    }
  }
  EXPECT_GE(valid, 12);
  EXPECT_GE(invalid, 13);
}

// Any damaged file is refused or yields readable views.
TEST(TorchArchive, DamagedFilesAreRefusedOrReadable) {
  std::vector<std::string> data;
  data.reserve(32);
  TemporaryFolder folder;
  torch_archive::write(folder / "w.pt", every_dtype(data), {{"k", "v"}});
  const std::string t = Tensor{.shape = {3, 2}, .strides = {1, 3}}.pickled();
  // Without checksums, so that damage reaches all of the reader.
  const std::string seeds[] = {
      without_sums(read_file(folder / "w.pt")),
      without_sums(archive(dict({{"state", dict({{"model", dict({{"a", t}})}})}}))),
      without_sums(
          zip({{"a/data.pkl", "\x80\x02" + dict({{"w", t}}) + "."}, {"a/data/0", kStorage}}, 10))};
  std::mt19937 random(11);
  int refused = 0, read = 0;
  unsigned sum = 0;
  const auto attempt = [&](const std::string& bytes) {
    // A copy of its exact size, so that a sanitizer sees a read beyond the end.
    const std::vector<char> exact(bytes.begin(), bytes.end());
    try {
      const auto file = File::parse(std::as_bytes(std::span<const char>(exact)), "w.pt");
      for (const auto& tensor : file.tensors())
        for (const std::byte byte : tensor.data) sum += std::to_integer<unsigned>(byte);
      ++read;
    } catch (const Error&) {
      ++refused;
    }
  };
  for (const auto& seed : seeds) {
    for (int i = 0; i < 6000; ++i) {
      auto bytes = seed;
      const unsigned changes = 1 + random() % 3;
      for (unsigned j = 0; j < changes; ++j)
        bytes[random() % bytes.size()] = static_cast<char>(random() % 3 == 0 ? 0xff : random());
      attempt(bytes);
    }
    for (int i = 0; i < 1000; ++i) attempt(seed.substr(0, random() % seed.size()));
  }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(read, 1000);
  EXPECT_GT(sum, 0u);
}

}  // namespace
}  // namespace hydramix::torch_archive
