// SPDX-License-Identifier: Apache-2.0
// Reads documents from text files and JSON lines, plain or compressed, in constant memory. One
// thread finds the borders of documents, which is cheap (TextSource); many threads parse them
// (extract_text). A malformed document yields a Defect, and reading continues after it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "data/input_files.h"
#include "data/line_reader.h"
#include "data/malformed.h"

namespace hydramix {

struct TextOptions {
  std::string field = "text";      // of a JSON line
  bool document_per_line = false;  // of a text file; else blank lines separate documents
  int64_t max_bytes = 16 << 20;    // of a document in the file
};

// A position between two documents. Reading can continue from here without parsing what comes
// before.
struct TextPosition {
  int64_t file = 0;    // number of the input file
  int64_t offset = 0;  // in its unpacked contents
  int64_t line = 0;    // lines before
  // Tell whether inputs changed before reading continues: CRC-32 of the files before this one, and
  // of those with the first bytes_read bytes of this one on disk. Readers are ahead of the offset.
  uint32_t files_crc = 0;
  int64_t bytes_read = 0;
  uint32_t crc = 0;
  bool operator==(const TextPosition&) const = default;
};

struct RawDocument {
  std::string bytes;  // a text, or a line of JSON
  bool is_json = false;
  int64_t file = 0, line = 0;    // where it begins; lines count from 1
  std::optional<Defect> defect;  // then there is no text
  TextPosition after;
};

class TextSource {
 public:
  TextSource(std::vector<InputFile> files, TextOptions options, TextPosition start = {});

  bool next(RawDocument& document);  // false after the last
  int64_t consumed() const;          // bytes read from the files on disk, for progress

 private:
  bool open();  // the file of position_; false when there is none left
  bool next_in_file(RawDocument& document);
  bool next_paragraphs(RawDocument& document);
  bool is_blank_line() const;
  void move_to_line_end();

  std::vector<InputFile> files_;
  TextOptions options_;
  TextPosition position_;
  int64_t consumed_before_ = 0;  // by the files before this one
  uint32_t crc_ = 0;             // of all bytes read from the files on disk
  std::unique_ptr<LineReader> reader_;
  bool is_json_ = false;
};

// Extracts the text of a document, or returns its defect. May move the bytes out.
std::optional<Defect> extract_text(RawDocument& document, const TextOptions& options,
                                   std::string& text);

}  // namespace hydramix
