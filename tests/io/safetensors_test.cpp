// SPDX-License-Identifier: Apache-2.0
// The safetensors reader refuses every malformed file by name and reason, the writer refuses what
// it could not read back, and a round trip is bit-exact. Also reads the fuzzer's corpus, and the
// golden files, which another implementation wrote.
#include "hydramix/safetensors.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "base/atomic_file.h"
#include "base/read_file.h"
#include "hydramix/error.h"
#include "support/expect.h"

namespace hydramix::safetensors {
namespace {

using test::TemporaryFolder;

std::string framed(const std::string& header, const std::string& data = "") {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(header.size() >> (8 * i));
  return out + header + data;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span<const char>(text));
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// A header entry; the default fits four bytes of data.
std::string entry(const std::string& name, const std::string& offsets = "[0,4]",
                  const std::string& shape = "[1]", const std::string& dtype = "\"F32\"") {
  return "\"" + name + "\":{\"dtype\":" + dtype + ",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

void expect_refused(const std::string& contents, const std::string& reason) {
  EXPECT_THROW_WITH(File::parse(bytes_of(contents), "weights.st"), Error, "weights.st: ");
  EXPECT_THROW_WITH(File::parse(bytes_of(contents), "weights.st"), Error, reason);
}

void expect_header_refused(const std::string& header, const std::string& reason) {
  expect_refused(framed(header, "0123"), reason);
}

TEST(SafetensorsReader, RefusesAWrongHeaderLength) {
  expect_refused("", "is empty");
  expect_refused("1234567", "has only 7 bytes");
  expect_refused(std::string(8, '\0') + "{}", "the header length is 0");
  expect_refused(std::string(8, '\xff') + "{}",
                 "header length 18446744073709551615 is over the limit of 100000000");
  expect_refused(std::string("\x03\0\0\0\0\0\0\0{}", 10),
                 "header length 3 is more than the 2 bytes");
  expect_refused(std::string("\x02\0\0\0\0\0\0\0", 8), "header length 2 is more than the 0 bytes");
  // 100,000,001: one over the limit, little-endian.
  expect_refused(std::string("\x01\xe1\xf5\x05\0\0\0\0{}", 10), "over the limit");
  // 100,000,000 itself is allowed, so the file is merely too short for it.
  expect_refused(std::string("\x00\xe1\xf5\x05\0\0\0\0{}", 10), "is more than the 2 bytes");
}

TEST(SafetensorsReader, RefusesAHeaderThatIsNotJson) {
  expect_header_refused("[]", "must start with '{'");
  expect_header_refused(" {}", "must start with '{'; it starts with \" \"");
  expect_header_refused("{\"a\":", "not valid JSON at its byte");
  expect_header_refused("{} {}", "not valid JSON at its byte 4");
  expect_header_refused(std::string("{}\0 ", 4), "zero byte at its byte 2");
  expect_header_refused("{" + entry("\xff") + "}", "ill-formed UTF-8");
  expect_header_refused("{" + entry("\\ud800") + "}", "not valid JSON");
  expect_header_refused("{\"w\":" + std::string(100'000, '['), "must be an object with dtype");
  expect_header_refused("{" + entry("w", "[0,4]", std::string(100'000, '[')), "got an array");
}

TEST(SafetensorsReader, RefusesDuplicates) {
  expect_header_refused("{" + entry("w") + "," + entry("w") + "}", "tensor \"w\" occurs twice");
  expect_header_refused("{" + entry("w") + "," + entry("\\u0077") + "}",
                        "tensor \"w\" occurs twice");
  expect_header_refused("{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}",
                        "tensor \"w\" has the field \"dtype\" twice");
  expect_header_refused("{\"__metadata__\":{},\"__metadata__\":{}}",
                        "\"__metadata__\" occurs twice");
  expect_header_refused("{\"__metadata__\":{\"k\":\"1\",\"k\":\"1\"}}", "the key \"k\" twice");
}

TEST(SafetensorsReader, RefusesWrongFields) {
  expect_header_refused("{\"w\":null}",
                        "must be an object with dtype, shape and data_offsets; got null");
  expect_header_refused("{\"w\":{}}", "lacks the field \"dtype\"");
  expect_header_refused("{\"w\":{\"dtype\":\"F32\",\"shape\":[1]}}",
                        "lacks the field \"data_offsets\"");
  expect_header_refused("{\"w\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}",
                        "lacks the field \"shape\"");
  expect_header_refused(
      "{\"w\":{\"shpe\":[1]}}",
      "unknown field \"shpe\"; known are dtype, shape, data_offsets. Did you mean 'shape'?");
  expect_header_refused("{" + entry("w", "[0,4]", "[1]", "\"FP32\"") + "}",
                        "unknown dtype \"FP32\"; known are BOOL, U8, I8");
  expect_header_refused("{" + entry("w", "[0,4]", "[1]", "\"FP32\"") + "}", "Did you mean 'F32'?");
  expect_header_refused("{" + entry("w", "[0,4]", "[1]", "32") + "}", "dtype must be a string");
  expect_header_refused("{\"__metadata__\":[]}", "\"__metadata__\" must be an object of strings");
  expect_header_refused("{\"__metadata__\":{\"k\":1}}",
                        "the value of \"k\" must be a string; got 1");
  expect_header_refused("{\"__metadata__\":{\"k\":{}}}", "must be a string; got an object");
  expect_header_refused("{" + entry("__metadata__") + "}", "must be a string; got an array");
}

TEST(SafetensorsReader, RefusesWrongNumbers) {
  const std::string shape_rule = "shape must be an array of non-negative integers below 2^63; got ";
  for (const std::string bad : {"-1", "-0", "1.5", "1e3", "9223372036854775808",
                                "18446744073709551616", "true", "null", "\"1\""})
    expect_header_refused("{" + entry("w", "[0,4]", "[" + bad + "]") + "}", shape_rule + bad);
  expect_header_refused("{" + entry("w", "[0,4]", "1") + "}", shape_rule + "1");
  expect_header_refused("{" + entry("w", "[0,4]", "{}") + "}", shape_rule + "an object");

  const std::string offsets_rule =
      "data_offsets must be an array of two non-negative integers; got ";
  expect_header_refused("{" + entry("w", "[0]") + "}", offsets_rule + "1 of them");
  expect_header_refused("{" + entry("w", "[0,4,4]") + "}", offsets_rule + "3 of them");
  expect_header_refused("{" + entry("w", "[-4,0]") + "}", offsets_rule + "-4");
  expect_header_refused("{" + entry("w", "[0,4.0]") + "}", offsets_rule + "4.0");
  expect_header_refused("{" + entry("w", "4") + "}", offsets_rule + "4");
}

TEST(SafetensorsReader, RefusesOffsetsThatDoNotFit) {
  expect_header_refused("{" + entry("w", "[4,0]") + "}",
                        "data_offsets [4, 0] end before they begin");
  expect_header_refused("{" + entry("w", "[0,8]", "[2]") + "}",
                        "data_offsets [0, 8] reach beyond the 4 bytes of data");
  expect_header_refused("{" + entry("w", "[18446744073709551612,18446744073709551615]") + "}",
                        "reach beyond the 4 bytes");
  expect_header_refused("{" + entry("w", "[0,4]", "[2]") + "}",
                        "F32 [2] takes 8 bytes, but data_offsets [0, 4] span 4");
  expect_header_refused("{" + entry("w", "[0,4]", "[0]") + "}", "F32 [0] takes 0 bytes");
  // 2^32 * 2^30 elements of 4 bytes are 2^64 bytes, which would wrap to 0.
  expect_header_refused("{" + entry("w", "[0,0]", "[4294967296,1073741824]") + "}",
                        "F32 [4294967296, 1073741824] overflows 63 bits");
  expect_header_refused("{" + entry("w", "[0,0]", "[0,4294967296,4294967296]") + "}",
                        "overflows 63 bits");
}

TEST(SafetensorsReader, RefusesDataThatIsNotTiledExactly) {
  const std::string six(6, 'x'), nine(9, 'x');
  expect_refused(framed("{" + entry("b", "[2,6]") + "," + entry("a") + "}", six),
                 "tensor \"b\" begins at 2 and overlaps the one before it, which ends at 4");
  expect_refused(framed("{" + entry("b") + "," + entry("a") + "}", "0123"),
                 "tensor \"b\" begins at 0 and overlaps");
  expect_refused(framed("{" + entry("a") + "," + entry("b", "[5,9]") + "}", nine),
                 "bytes 4 to 5 before tensor \"b\" are a hole");
  expect_refused(framed("{" + entry("a", "[1,5]") + "}", "01234"), "bytes 0 to 1 before tensor");
  expect_refused(framed("{" + entry("w") + "}", "01234"), "1 bytes follow the last tensor");
  expect_refused(framed("{}", "0"), "1 bytes follow the last tensor");
}

TEST(SafetensorsReader, ShowsHostileNamesShortAndOnOneLine) {
  try {
    const std::string contents =
        framed("{" + entry("a\\n" + std::string(10'000, 'x'), "[4,0]") + "}");
    File::parse(bytes_of(contents), "w");
    FAIL() << "did not throw";
  } catch (const Error& error) {
    EXPECT_LT(std::strlen(error.what()), 500U);
    EXPECT_EQ(std::strchr(error.what(), '\n'), nullptr);
  }
  // The edit distance of long unknown words is not computed in full: that would take gigabytes.
  const std::string huge(1'000'000, 'F');
  expect_header_refused("{" + entry("w", "[0,4]", "[1]", "\"" + huge + "\"") + "}",
                        "unknown dtype");
  expect_header_refused("{\"w\":{\"" + huge + "\":0}}", "unknown field");
}

TEST(SafetensorsReader, ListsTensorsInTheOrderOfTheirData) {
  const std::string contents =
      framed("{" + entry("b", "[4,8]") + "," + entry("e", "[4,4]", "[3,0]") + "," + entry("a") +
                 ",\"__metadata__\":{\"format\":\"pt\"}}  ",
             "01234567");
  const File file = File::parse(bytes_of(contents), "memory");
  ASSERT_EQ(file.tensors().size(), 3U);
  EXPECT_EQ(file.tensors()[0].name, "a");
  EXPECT_EQ(file.tensors()[1].name, "e");
  EXPECT_EQ(file.tensors()[1].shape, (std::vector<std::int64_t>{3, 0}));
  EXPECT_EQ(file.tensors()[2].name, "b");
  EXPECT_EQ(text_of(file.at("b").data), "4567");
  EXPECT_EQ(file.metadata(), (Metadata{{"format", "pt"}}));
}

TEST(SafetensorsReader, ReadsMisalignedTensors) {
  const double value = 0.1;
  std::string data(1 + sizeof value, '\x7f');
  std::memcpy(data.data() + 1, &value, sizeof value);
  const std::string contents = framed(
      "{" + entry("b", "[0,1]", "[1]", "\"U8\"") + "," + entry("w", "[1,9]", "[]", "\"F64\"") + "}",
      data);
  const File file = File::parse(bytes_of(contents), "memory");
  double read = 0;
  std::memcpy(&read, file.at("w").data.data(), sizeof read);
  EXPECT_EQ(read, value);
}

TEST(SafetensorsReader, SuggestsTheNearestNameForAMissingTensor) {
  const std::string contents = framed("{" + entry("in_proj.weight") + "}", "0123");
  const File file = File::parse(bytes_of(contents), "weights.st");
  EXPECT_EQ(file.find("in_proj.wieght"), nullptr);
  EXPECT_THROW_WITH(file.at("in_proj.wieght"), Error,
                    "weights.st: has no tensor \"in_proj.wieght\" among its 1. "
                    "Did you mean 'in_proj.weight'?");
}

TEST(SafetensorsReader, RefusesPathsThatAreNotRegularFiles) {
  const TemporaryFolder folder;
  EXPECT_THROW_WITH(File::open(folder / "missing"), Error, "No such file");
  EXPECT_THROW_WITH(File::open(folder.path()), Error, "is a directory");
  write_file(folder / "empty", "");
  EXPECT_THROW_WITH(File::open(folder / "empty"), Error,
                    (folder / "empty").string() + ": is empty");
  ASSERT_EQ(mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_THROW_WITH(File::open(folder / "pipe"), Error, "is a pipe or a device");
}

TEST(SafetensorsReader, ViewsOutliveTheFileObjectWhileItsStorageIsHeld) {
  const TemporaryFolder folder;
  write_file(folder / "w", framed("{" + entry("w") + "}", "0123"));
  std::optional<File> file = File::open(folder / "w");
  const File copy = *file;
  const std::shared_ptr<const void> storage = file->storage();
  const TensorView view = file->at("w");
  file.reset();
  EXPECT_EQ(text_of(copy.at("w").data), "0123");
  EXPECT_EQ(text_of(view.data), "0123");
}

constexpr DType kEveryDType[] = {DType::kBool, DType::kU8,     DType::kI8,     DType::kU16,
                                 DType::kI16,  DType::kU32,    DType::kI32,    DType::kU64,
                                 DType::kI64,  DType::kF8E4M3, DType::kF8E5M2, DType::kF16,
                                 DType::kBF16, DType::kF32,    DType::kF64};

TEST(SafetensorsWriter, RoundTripsEveryDTypeShapeAndName) {
  const TemporaryFolder folder;
  std::string noise;
  for (int i = 0; i < 256; ++i) noise += static_cast<char>(i * 37);
  const auto some = [&noise](std::size_t begin, std::size_t size) {
    return bytes_of(noise).subspan(begin, size);
  };
  std::vector<TensorView> tensors;
  for (const DType dtype : kEveryDType) {
    const std::string base(dtype_name(dtype));
    const std::size_t width = dtype_size(dtype);
    tensors.push_back({base + ".matrix", dtype, {2, 3}, some(1, 6 * width)});
    tensors.push_back({base + ".scalar", dtype, {}, some(7, width)});
    tensors.push_back({base + ".empty", dtype, {4, 0, 2}, {}});
  }
  for (const std::string& name : {std::string(), std::string("q\"uo\\te"), std::string("a\nb"),
                                  std::string("\xf0\x9f\x90\x8d \xc3\xa9"), std::string("z\0!", 3)})
    tensors.push_back({name, DType::kU8, {2}, some(5 + name.size(), 2)});
  const Metadata metadata = {{"format", "pt"}, {"", "empty key"}, {"k\n\"", "\xc3\xa9\\"}};

  write(folder / "all", tensors, metadata);
  const File file = File::open(folder / "all");
  EXPECT_EQ(file.metadata(), metadata);
  ASSERT_EQ(file.tensors().size(), tensors.size());
  for (const auto& expected : tensors) {
    const TensorView& read = file.at(expected.name);
    EXPECT_EQ(read.dtype, expected.dtype) << expected.name;
    EXPECT_EQ(read.shape, expected.shape) << expected.name;
    EXPECT_EQ(text_of(read.data), text_of(expected.data)) << expected.name;
    // The mapping is page-aligned, so addresses show the alignment in the file.
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(read.data.data()) % dtype_size(read.dtype), 0U)
        << expected.name;
  }
}

TEST(SafetensorsWriter, WritesNoTensorsAsAHeaderAlone) {
  const TemporaryFolder folder;
  write(folder / "none", {});
  EXPECT_EQ(read_file(folder / "none"),
            framed("{\"__metadata__\":{\"hydramix.crc32c\":\"00000000\"}} "));
  EXPECT_TRUE(File::open(folder / "none").tensors().empty());
}

class SafetensorsChecksums : public ::testing::Test {
 protected:
  void SetUp() override {
    write(folder_ / "w",
          {{"a", DType::kF32, {2, 2}, bytes_of(data_)}, {"b", DType::kU8, {3}, bytes_of("xyz")}},
          {{"config", "{\"x\": 1}"}, {"format", "pt"}});
    bytes_ = read_file(folder_ / "w");
  }
  File parse(const std::string& bytes) const { return File::parse(bytes_of(bytes), "w"); }
  // The file with `from` in its header replaced by `to`, of the same length.
  std::string with(const std::string& from, const std::string& to) const {
    auto bytes = bytes_;
    const auto at = bytes.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return bytes.replace(at, from.size(), to);
  }

  const TemporaryFolder folder_;
  const std::string data_ = "0123456789abcdef";
  std::string bytes_;
};

TEST_F(SafetensorsChecksums, AreInTheMetadataForOtherReadersToIgnore) {
  EXPECT_NE(bytes_.find("\"hydramix.crc32c:a\":\"42d3119e\""), std::string::npos) << bytes_;
  const auto file = parse(bytes_);
  EXPECT_TRUE(file.has_checksums());
  EXPECT_EQ(file.metadata(), (Metadata{{"config", "{\"x\": 1}"}, {"format", "pt"}}));
  // Written again with what was read, sums included, it is the same file.
  write(folder_ / "again", file.tensors(), file.metadata());
  EXPECT_EQ(read_file(folder_ / "again"), bytes_);
}

TEST_F(SafetensorsChecksums, EveryChangedByteIsNoticed) {
  int accepted = 0;
  for (std::size_t at = 0; at < bytes_.size(); ++at)
    for (int bit = 0; bit < 8; ++bit) {
      auto damaged = bytes_;
      damaged[at] = static_cast<char>(damaged[at] ^ 1 << bit);
      try {
        parse(damaged);
        ++accepted;
        ADD_FAILURE() << "byte " << at << ", bit " << bit;
      } catch (const Error&) {
      }
    }
  EXPECT_EQ(accepted, 0);
}

TEST_F(SafetensorsChecksums, TheErrorNamesFileAndTensor) {
  EXPECT_THROW_WITH(parse(with("0123", "0124")), Error,
                    "w: tensor \"a\": the checksum of its 16 bytes is");
  EXPECT_THROW_WITH(parse(with("[2,2]", "[4,1]")), Error, "names, types, shapes and metadata");
  EXPECT_THROW_WITH(parse(with("\"F32\"", "\"I32\"")), Error, "shapes and metadata");
  EXPECT_THROW_WITH(parse(with("\"pt\"", "\"tf\"")), Error, "shapes and metadata");
  EXPECT_THROW_WITH(parse(with("hydramix.crc32c\"", "hydramix_crc32c\"")), Error,
                    "the file records none");
}

TEST_F(SafetensorsChecksums, AFileWithoutThemIsAcceptedAsItIs) {
  const auto file = File::parse(bytes_of(framed("{" + entry("w") + "}", "0123")), "foreign");
  EXPECT_FALSE(file.has_checksums());
}

TEST(SafetensorsWriter, WritesTheSameBytesWhateverTheOrderOfTheTensors) {
  const TemporaryFolder folder;
  const std::string data = "0123456789abcdef";
  std::vector<TensorView> tensors = {
      {"small", DType::kU8, {3}, bytes_of(data).first(3)},
      {"b", DType::kF64, {}, bytes_of(data).first(8)},
      {"a", DType::kF64, {}, bytes_of(data).last(8)},
  };
  write(folder / "one", tensors);
  std::reverse(tensors.begin(), tensors.end());
  write(folder / "two", tensors);
  EXPECT_EQ(read_file(folder / "one"), read_file(folder / "two"));
  const std::string header =
      "{\"__metadata__\":{\"hydramix.crc32c\":\"95cea658\",\"hydramix.crc32c:a\":\"c4dde186\","
      "\"hydramix.crc32c:b\":\"ac222320\",\"hydramix.crc32c:small\":\"73b69656\"},"
      "\"a\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[0,8]},"
      "\"b\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[8,16]},"
      "\"small\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[16,19]}}";
  const std::string padding((8 - header.size() % 8) % 8, ' ');
  EXPECT_EQ(read_file(folder / "one"), framed(header + padding, "89abcdef01234567012"));
}

TEST(SafetensorsWriter, CanReplaceTheFileItsTensorsAreMappedFrom) {
  const TemporaryFolder folder;
  const std::string data(100'000, 'x');
  write(folder / "w", {{"w", DType::kU8, {100'000}, bytes_of(data)}});
  const File before = File::open(folder / "w");
  write(folder / "w", {before.at("w")}, {{"step", "2"}});
  const File after = File::open(folder / "w");
  EXPECT_EQ(text_of(after.at("w").data), data);
  EXPECT_EQ(text_of(before.at("w").data), data);
  EXPECT_EQ(after.metadata().at("step"), "2");
}

TEST(SafetensorsWriter, RefusesWhatItCouldNotReadBack) {
  const TemporaryFolder folder;
  const auto path = folder / "bad";
  const std::string data = "01234567";
  const auto try_write = [&](const std::string& name, std::vector<std::int64_t> shape,
                             const Metadata& metadata = {}) {
    write(path, {{name, DType::kF32, std::move(shape), bytes_of(data)}}, metadata);
  };
  EXPECT_THROW_WITH(try_write("w", {3}), Error, "F32 [3] takes 12 bytes, but 8 were given");
  EXPECT_THROW_WITH(try_write("w", {}), Error, "F32 [] takes 4 bytes, but 8 were given");
  EXPECT_THROW_WITH(try_write("w", {-1, -2}), Error, "the shape [-1, -2] has a negative entry");
  EXPECT_THROW_WITH(try_write("w", {1LL << 40, 1LL << 40}), Error, "overflows 63 bits");
  EXPECT_THROW_WITH(try_write("__metadata__", {2}), Error, "reserved for the metadata");
  EXPECT_THROW_WITH(try_write("\xff", {2}), Error, "the tensor name");
  EXPECT_THROW_WITH(try_write("\xff", {2}), Error, "is not valid UTF-8");
  EXPECT_THROW_WITH(try_write("w", {2}, {{"\xc0\xaf", ""}}), Error, "the metadata key");
  EXPECT_THROW_WITH(try_write("w", {2}, {{"k", "\xed\xa0\x80"}}), Error, "the metadata value");
  EXPECT_THROW_WITH(try_write("w", {2}, {{"k", std::string(100'000'001, 'x')}}), Error,
                    "over the limit of 100000000");
  const TensorView tensor = {"w", DType::kF32, {2}, bytes_of(data)};
  EXPECT_THROW_WITH(write(path, {tensor, tensor}), Error, "tensor \"w\" is given twice");
  EXPECT_THROW_WITH(dtype_name(static_cast<DType>(99)), Error, "99 is not a value of DType");
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  EXPECT_THROW_WITH(write(folder / "no/such/folder", {tensor}), Error, "cannot be created");
}

TEST(SafetensorsCorpus, OpensTheValidFilesAndRefusesAllOthers) {
  std::size_t valid = 0, invalid = 0;
  const std::filesystem::path root(HYDRAMIX_SOURCE_DIR);
  for (const auto& file : std::filesystem::directory_iterator(root / "fuzz/corpus/safetensors")) {
    SCOPED_TRACE(file.path().filename().string());
    if (file.path().filename().string().starts_with("ok_")) {
      ++valid;
      EXPECT_NO_THROW(File::open(file.path()));
    } else {
      ++invalid;
      EXPECT_THROW_WITH(File::open(file.path()), Error, file.path().string() + ": ");
    }
  }
  EXPECT_GE(valid, 10U);
  EXPECT_GE(invalid, 40U);
}

TEST(SafetensorsGolden, OpensTheFilesOfAnotherWriter) {
  std::size_t files = 0;
  const std::filesystem::path root(HYDRAMIX_SOURCE_DIR);
  for (const auto& item : std::filesystem::directory_iterator(root / "tests/golden")) {
    if (item.path().extension() != ".safetensors") continue;
    SCOPED_TRACE(item.path().filename().string());
    const File file = File::open(item.path());
    const auto name = file.metadata().find("case");  // only that writer gives it
    if (name == file.metadata().end()) continue;
    ++files;
    EXPECT_EQ(name->second, item.path().stem().string());
    EXPECT_FALSE(file.tensors().empty());
    for (const auto& tensor : file.tensors()) EXPECT_EQ(file.find(tensor.name), &tensor);
  }
  EXPECT_GE(files, 20U);
}

}  // namespace
}  // namespace hydramix::safetensors
