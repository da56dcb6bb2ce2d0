// SPDX-License-Identifier: Apache-2.0
// Every format yields documents with the file and line where they begin, and every kind of damage
// is reported there without losing its surroundings.
#include "data/text_source.h"

#include <random>

#include "base/atomic_file.h"
#include "hydramix/error.h"
#include "support/archives.h"
#include "support/expect.h"

namespace hydramix {
namespace {

using test::gzip;
using test::TemporaryFolder;
using test::xz;
using test::zstd;

// "2:text" for a document that begins in line 2, "2!cause" for a defect there; a file number other
// than 0 precedes it: "1/2:text".
std::vector<std::string> read_all(const std::vector<InputFile>& files, const TextOptions& options,
                                  TextPosition start = {}) {
  std::vector<std::string> found;
  TextSource source(files, options, start);
  RawDocument document;
  std::string text;
  while (source.next(document)) {
    const auto defect = extract_text(document, options, text);
    const std::string file = document.file > 0 ? concat(document.file, "/") : "";
    if (defect)
      found.push_back(
          concat(file, defect->line, "!", kCauseNames[static_cast<std::size_t>(defect->cause)]));
    else
      found.push_back(concat(file, document.line, ":", text));
  }
  return found;
}

std::vector<std::string> read_as(const std::string& name, const std::string& contents,
                                 const TextOptions& options = {}) {
  const TemporaryFolder folder;
  write_file(folder / name, contents);
  return read_all(find_input_files({(folder / name).string()}).files, options);
}

Defect first_defect(const std::string& name, const std::string& contents,
                    const TextOptions& options = {}) {
  const TemporaryFolder folder;
  write_file(folder / name, contents);
  TextSource source(find_input_files({(folder / name).string()}).files, options);
  RawDocument document;
  std::string text;
  while (source.next(document))
    if (auto defect = extract_text(document, options, text)) return *defect;
  throw std::runtime_error("no defect");
}

using Strings = std::vector<std::string>;
const TextOptions kPerLine = {.document_per_line = true};

TEST(TextSource, BlankLinesSeparateDocuments) {
  EXPECT_EQ(read_as("a.txt", "one\ntwo\n\n \t\n\nthree\n"), (Strings{"1:one\ntwo", "6:three"}));
  EXPECT_EQ(read_as("a.txt", "\n\nlast line without end"), (Strings{"3:last line without end"}));
  EXPECT_EQ(read_as("a.txt", ""), Strings{});
  EXPECT_EQ(read_as("a.txt", "\n \n"), Strings{});
}

TEST(TextSource, ADocumentCanBeOneLine) {
  EXPECT_EQ(read_as("a.txt", "one\ntwo\n\nthree", kPerLine),
            (Strings{"1:one", "2:two", "4:three"}));
}

TEST(TextSource, CarriageReturnsAndByteOrderMarksAreDropped) {
  EXPECT_EQ(read_as("a.txt", "\xEF\xBB\xBFone\r\ntwo\r\n\r\nthree\r\n"),
            (Strings{"1:one\ntwo", "4:three"}));
  EXPECT_EQ(read_as("a.json", "\xEF\xBB\xBF{\"text\": \"x\"}\r\n"), Strings{"1:x"});
}

TEST(TextSource, TextComesFromAFieldOfJsonLines) {
  const std::string lines =
      "{\"text\": \"a\\nb \\u00e9 \\ud83d\\ude00\", \"url\": \"u\"}\n\n"
      "{\"meta\": {\"text\": \"no\", \"list\": [1, {\"text\": \"no\"}]}, \"text\": \"yes\"}\n"
      "{\"text\": \"first\", \"text\": \"last\"}";
  EXPECT_EQ(read_as("a.jsonl", lines), (Strings{"1:a\nb é 😀", "3:yes", "4:last"}));
  EXPECT_EQ(read_as("a.json", "{\"text\": \"x\", \"body\": \"y\"}", {.field = "body"}),
            Strings{"1:y"});
}

TEST(TextSource, EveryMalformedLineIsReportedAndTheNextIsRead) {
  EXPECT_EQ(read_as("a.json",
                    "{\"text\": \"good\"}\n"
                    "{\"text\": \"cut sh\n"
                    "{\"url\": \"u\"}\n"
                    "{\"text\": 5}\n"
                    "{\"text\": null}\n"
                    "{\"text\": [\"x\"]}\n"
                    "{\"text\": \"\xC3\x28\"}\n"
                    "[\"text\", \"x\"]\n"
                    "{\"text\": \"lone \\ud800\"}\n"
                    "{\"text\": \"x\"} more\n"
                    "{\"text\": \"good too\"}\n"),
            (Strings{"1:good", "2!bad_json", "3!missing_field", "4!not_a_string", "5!not_a_string",
                     "6!not_a_string", "7!not_utf8", "8!missing_field", "9!bad_json", "10!bad_json",
                     "11:good too"}));
}

TEST(TextSource, ADefectDescribesWhatWasFound) {
  EXPECT_NE(first_defect("a.json", "{\"url\": \"u\", \"body\": \"b\"}")
                .detail.find("no field 'text'; there are: url, body"),
            std::string::npos);
  EXPECT_NE(first_defect("a.json", "{\"text\": tru}").detail.find("not JSON at byte 13"),
            std::string::npos);
  const Defect defect = first_defect("a.txt", "first\nsecond \xFF\nthird\n");
  EXPECT_EQ(defect.line, 2);
  EXPECT_EQ(defect.detail, "byte 13 of the document is not UTF-8");
}

TEST(TextSource, InvalidUtf8IsFoundAtEveryPosition) {
  for (const char* bad : {"\x80", "\xC0\x80", "\xED\xA0\x80", "\xF4\x90\x80\x80", "\xE2\x82"})
    for (int before = 0; before < 17; ++before) {
      const std::string text = std::string(static_cast<std::size_t>(before), 'x') + bad;
      EXPECT_EQ(read_as("a.txt", text + "\n\nfine"), (Strings{"1!not_utf8", "3:fine"})) << before;
    }
  EXPECT_EQ(read_as("a.txt", "12345678é€😀").size(), 1U);
}

TEST(TextSource, DocumentsAboveTheLimitAreSkippedAndNotKeptInMemory) {
  const TextOptions lines = {.document_per_line = true, .max_bytes = 10};
  EXPECT_EQ(read_as("a.txt", "0123456789\n0123456789x\nshort\n", lines),
            (Strings{"1:0123456789", "2!too_long", "3:short"}));
  const TextOptions paragraphs = {.max_bytes = 10};
  EXPECT_EQ(read_as("a.txt", "01234\n5678\n\n01234\n56789\n\nx\n", paragraphs),
            (Strings{"1:01234\n5678", "4!too_long", "7:x"}));
  const std::string longer_than_buffers(1'000'000, 'x');
  EXPECT_EQ(read_as("a.json", longer_than_buffers + "\n{\"text\": \"y\"}", {.max_bytes = 1000}),
            (Strings{"1!too_long", "2:y"}));
  EXPECT_EQ(read_as("a.txt", longer_than_buffers), Strings{"1:" + longer_than_buffers});
}

// Lines of all lengths around the buffer sizes, in every format.
TEST(TextSource, ArchivesReadAsTheirOriginals) {
  std::mt19937 random(1);
  std::string contents, first_half;
  Strings expected;
  for (int line = 1; line <= 60; ++line) {
    std::string text(random() % 40'000, 'a');
    for (char& letter : text) letter = static_cast<char>('a' + random() % 26);
    text += '.';
    contents += text + "\n";
    expected.push_back(concat(line, ":", text));
    if (line == 30) first_half = contents;
  }
  const std::string second_half = contents.substr(first_half.size());
  EXPECT_EQ(read_as("a.txt", contents, kPerLine), expected);
  EXPECT_EQ(read_as("a.txt.gz", gzip(contents), kPerLine), expected);
  EXPECT_EQ(read_as("a.txt.zst", zstd(contents), kPerLine), expected);
  EXPECT_EQ(read_as("several.txt.gz", gzip(first_half) + gzip("") + gzip(second_half), kPerLine),
            expected);
  EXPECT_EQ(read_as("several.txt.zst", zstd(first_half) + zstd("") + zstd(second_half), kPerLine),
            expected);
  EXPECT_EQ(read_as("a.txt.xz", xz(contents), kPerLine), expected);
  const std::string padding(8, '\0');  // allowed between streams in steps of four bytes
  EXPECT_EQ(read_as("several.txt.xz", xz(first_half) + xz("") + padding + xz(second_half) + padding,
                    kPerLine),
            expected);
  EXPECT_EQ(read_as("unnamed", xz(contents), kPerLine), expected) << "by its first bytes";
  EXPECT_EQ(read_as("unnamed", gzip(contents), kPerLine), expected) << "by its first bytes";
  EXPECT_EQ(read_as("unnamed", zstd(contents), kPerLine), expected) << "by its first bytes";
}

TEST(TextSource, EmptyArchivesHoldNoDocuments) {
  EXPECT_EQ(read_as("a.txt.gz", gzip("")), Strings{});
  EXPECT_EQ(read_as("a.txt.zst", zstd("")), Strings{});
  EXPECT_EQ(read_as("a.txt.xz", xz("")), Strings{});
}

TEST(TextSource, ATruncatedArchiveYieldsItsCompleteLinesAndThenADefect) {
  std::mt19937 random(2);
  std::string contents;
  for (int line = 0; line < 20000; ++line) contents += concat("line ", random(), "\n");
  for (const auto& [name, packed] :
       {std::pair("a.txt.gz", gzip(contents)), std::pair("a.txt.zst", zstd(contents)),
        std::pair("a.txt.xz", xz(contents))}) {
    const Strings whole = read_as(name, packed, kPerLine);
    ASSERT_EQ(whole.size(), 20000U);
    for (const std::size_t size :
         {std::size_t{0}, std::size_t{1}, std::size_t{9}, packed.size() / 2, packed.size() - 1}) {
      const Strings found = read_as(name, packed.substr(0, size), kPerLine);
      ASSERT_FALSE(found.empty()) << name << " of " << size;
      EXPECT_EQ(found.back(), concat(found.size(), "!damaged_archive")) << name << " of " << size;
      EXPECT_TRUE(std::equal(found.begin(), found.end() - 1, whole.begin()));
      if (size == packed.size() - 1) {
        EXPECT_GT(found.size(), 1U) << name;
      }
    }
  }
}

TEST(TextSource, AnArchiveWithWrongBytesIsADefectAndTheNextFileIsRead) {
  const TemporaryFolder folder;
  std::string contents;
  for (int line = 0; line < 1000; ++line) contents += concat("{\"text\": \"", line, "\"}\n");
  std::string gz = gzip(contents);
  gz[gz.size() - 6] = static_cast<char>(gz[gz.size() - 6] ^ 1);  // the checksum
  write_file(folder / "a.json.gz", gz);
  write_file(folder / "b.json.gz", "this is no archive");
  write_file(folder / "c.json.zst", "this is no archive");
  write_file(folder / "d.json.gz", gzip("{\"text\": \"x\"}") + "garbage after it");
  write_file(folder / "e.json.xz", "this is no archive");
  write_file(folder / "f.json.xz", xz("{\"text\": \"x\"}") + "garbage after it");
  write_file(folder / "g.json", "{\"text\": \"last\"}");
  const Strings found = read_all(find_input_files({folder.path().string()}).files, {});
  const Strings tail(found.end() - 7, found.end());
  EXPECT_EQ(tail, (Strings{"1001!damaged_archive", "1/1!damaged_archive", "2/1!damaged_archive",
                           "3/1!damaged_archive", "4/1!damaged_archive", "5/1!damaged_archive",
                           "6/1:last"}));
}

// Whatever byte is flipped, xz's checksums find it: nothing but the original's lines is returned.
TEST(TextSource, AFlippedByteOfAnXzArchiveIsADefect) {
  std::string contents;
  for (int line = 0; line < 5; ++line) contents += concat("line ", line, "\n");
  const std::string packed = xz(contents);
  EXPECT_EQ(read_as("a.txt.xz", packed, kPerLine).size(), 5U);
  for (std::size_t at = 0; at < packed.size(); ++at) {
    std::string damaged = packed;
    damaged[at] = static_cast<char>(damaged[at] ^ 0x10);
    const Strings found = read_as("a.txt.xz", damaged, kPerLine);
    ASSERT_FALSE(found.empty()) << at;
    EXPECT_TRUE(found.back().ends_with("!damaged_archive")) << at;
  }
}

TEST(TextSource, AnXzArchiveCannotTakeMuchMemory) {
  EXPECT_EQ(read_as("a.txt.xz", xz("small", 64 << 20)), Strings{"1:small"}) << "as xz -9 does";
  EXPECT_THROW_WITH(read_as("a.txt.xz", xz("small", 512 << 20)), Error,
                    "MiB to be decompressed; at most 130 MiB are given");
}

TEST(TextSource, ReadingResumesAfterAnyDocument) {
  const TemporaryFolder folder;
  const std::string lines = "{\"text\": \"a\"}\nbad\n\n{\"text\": \"b\"}\n{\"text\": \"c\"}";
  write_file(folder / "a.txt", "\xEF\xBB\xBFone\ntwo\n\n\nthree\n\n");
  write_file(folder / "b.json.gz", gzip(lines.substr(0, 20)) + gzip(lines.substr(20)));
  write_file(folder / "c.json.zst", zstd(lines));
  write_file(folder / "d.json.gz", gzip(lines).substr(0, 12));
  write_file(folder / "e.json", lines);
  const auto files = find_input_files({folder.path().string()}).files;
  const Strings all = read_all(files, {});
  EXPECT_EQ(all.size(), 2U + 4U + 4U + 1U + 4U);

  TextSource source(files, {});
  RawDocument document;
  for (std::size_t done = 1; source.next(document); ++done)
    EXPECT_EQ(read_all(files, {}, document.after),
              Strings(all.begin() + static_cast<std::ptrdiff_t>(done), all.end()))
        << "after document " << done;
}

TEST(TextSource, ConsumedCountsBytesOnDisk) {
  const TemporaryFolder folder;
  write_file(folder / "a.txt.gz", gzip(std::string(100'000, 'x')));
  write_file(folder / "b.txt", "text");
  const auto input = find_input_files({folder.path().string()});
  TextSource source(input.files, {});
  RawDocument document;
  while (source.next(document)) EXPECT_LE(source.consumed(), input.bytes());
  EXPECT_EQ(source.consumed(), input.bytes());
  EXPECT_EQ(TextSource(input.files, {}, {.file = 1}).consumed(), input.files[0].bytes);
}

TEST(InputFiles, FoldersAreReadAtAnyDepthInOrder) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "b/deep");
  std::filesystem::create_directories(folder / ".hidden");
  for (const char* name : {"c.jsonl.zst", "a.txt", "b/deep/x.json.gz", "b/a.text", "README.md",
                           ".hidden/y.txt", ".z.txt", "b/model.bin.gz"})
    write_file(folder / name, "x");
  std::filesystem::create_directory_symlink(folder.path(), folder / "circle");
  const auto found = find_input_files(
      {(folder / "c.jsonl.zst").string(), (folder / "b").string(), (folder / "a.txt").string()});
  Strings names;
  for (const auto& file : found.files)
    names.push_back(std::filesystem::relative(file.path, folder.path()).string());
  EXPECT_EQ(names, (Strings{"c.jsonl.zst", "b/a.text", "b/deep/x.json.gz", "a.txt"}));
  EXPECT_EQ(found.bytes(), 4);
  const auto all = find_input_files({folder.path().string()});
  EXPECT_EQ(all.files.size(), 4U);
  EXPECT_EQ(all.skipped.size(), 3U) << "README.md, b/model.bin.gz and the link";
}

TEST(InputFiles, UnreadableInputsAreAnErrorAtOnce) {
  const TemporaryFolder folder;
  const auto find = [&](const Strings& names) {
    Strings paths;
    for (const auto& name : names) paths.push_back((folder / name).string());
    return find_input_files(paths);
  };
  EXPECT_THROW_WITH(find({"missing.txt"}), Error, "missing.txt: there is no such file");
  EXPECT_THROW_WITH(find({""}), Error, "no text in it. Expected files ending in .txt");
  EXPECT_THROW_WITH(find_input_files({"/dev/null"}), Error, "is a pipe or a device");
  write_file(folder / "a.txt", "x");
  EXPECT_THROW_WITH(find({"a.txt", ""}), Error, "a.txt: is there twice");
  EXPECT_THROW_WITH(find({"a.txt", "../" + folder.path().filename().string() + "/a.txt"}), Error,
                    "name each input once");
}

}  // namespace
}  // namespace hydramix
