// SPDX-License-Identifier: Apache-2.0
#include "data/text_source.h"

#include <algorithm>

#include "base/quotes.h"
#include "base/read_file.h"
#include "data/json_field.h"
#include "text/unicode.h"

namespace hydramix {

TextSource::TextSource(std::vector<InputFile> files, TextOptions options, TextPosition start)
    : files_(std::move(files)), options_(std::move(options)), position_(start) {
  for (int64_t i = 0; i < std::min<int64_t>(start.file, std::ssize(files_)); ++i)
    consumed_before_ += files_[static_cast<std::size_t>(i)].bytes;
  crc_ = start.files_crc;
}

int64_t TextSource::consumed() const {
  return consumed_before_ + (reader_ ? reader_->consumed() : 0);
}

bool TextSource::open() {
  if (position_.file >= std::ssize(files_)) return false;
  const std::string& path = files_[static_cast<std::size_t>(position_.file)].path;
  is_json_ = holds_json_lines(path);
  reader_ = std::make_unique<LineReader>(open_bytes(path, position_.offset, &crc_),
                                         options_.max_bytes, position_.offset, position_.line);
  return true;
}

void TextSource::move_to_line_end() {
  position_.offset = reader_->offset();
  position_.line = reader_->number();
  position_.bytes_read = reader_->consumed();
  position_.crc = crc_;
}

bool TextSource::next(RawDocument& document) {
  document.defect.reset();
  document.bytes.clear();
  while (true) {
    document.file = position_.file;
    document.line = position_.line + 1;
    bool damaged = false;
    try {
      if (!reader_ && !open()) return false;
      document.is_json = is_json_;
      if (next_in_file(document)) {
        document.after = position_;
        return true;
      }
    } catch (const DamagedArchive& damage) {
      damaged = true;
      document.bytes.clear();
      document.line = (reader_ ? reader_->number() : position_.line) + 1;
      document.defect = Defect{Cause::damaged_archive, document.file, document.line, damage.what()};
    }
    const InputFile& file = files_[static_cast<std::size_t>(position_.file)];
    consumed_before_ += file.bytes;
    // The rest of a damaged archive was not read, but belongs to the input too.
    if (damaged) crc_ = file_crc(file.path, 0, file.bytes, position_.files_crc);
    reader_.reset();
    position_ = {position_.file + 1, 0, 0, crc_, 0, crc_};
    if (damaged) {
      document.after = position_;
      return true;
    }
  }
}

bool TextSource::is_blank_line() const {
  return !reader_->too_long() && reader_->text().find_first_not_of(" \t\r") == std::string::npos;
}

bool TextSource::next_in_file(RawDocument& document) {
  while (reader_->next()) {
    if (!is_blank_line()) {
      document.line = reader_->number();
      std::string_view line = reader_->text();
      if (document.line == 1) line = without_byte_order_mark(line);
      document.bytes.assign(line);
      if (!is_json_ && !options_.document_per_line) return next_paragraphs(document);
      if (reader_->too_long())
        document.defect = Defect{Cause::too_long, document.file, document.line,
                                 concat("the line has more than ", options_.max_bytes, " bytes")};
      move_to_line_end();
      return true;
    }
    move_to_line_end();
  }
  return false;
}

// Appends the lines up to a blank one or the end of the file; the first line is already read.
bool TextSource::next_paragraphs(RawDocument& document) {
  const auto limit = static_cast<std::size_t>(options_.max_bytes);
  bool too_long = reader_->too_long();
  while (true) {
    move_to_line_end();
    if (!reader_->next()) break;
    if (is_blank_line()) {
      move_to_line_end();
      break;
    }
    too_long |= reader_->too_long() || document.bytes.size() + 1 + reader_->text().size() > limit;
    if (!too_long) document.bytes.append("\n").append(reader_->text());
  }
  if (too_long) {
    document.bytes.clear();
    document.defect = Defect{Cause::too_long, document.file, document.line,
                             concat("more than ", limit,
                                    " bytes up to the next blank line; expected blank lines "
                                    "between documents, or --document per-line")};
  }
  return true;
}

std::optional<Defect> extract_text(RawDocument& document, const TextOptions& options,
                                   std::string& text) {
  if (document.defect) return document.defect;
  const auto defect = [&](Cause cause, std::string detail) {
    return Defect{cause, document.file, document.line, std::move(detail)};
  };
  const std::size_t valid = unicode::valid_utf8_prefix(document.bytes);
  if (valid < document.bytes.size()) {
    Defect found = defect(Cause::not_utf8, "");
    const auto begin = document.bytes.begin();
    found.line += std::count(begin, begin + static_cast<std::ptrdiff_t>(valid), '\n');
    found.detail = concat("byte ", valid, " of the document is not UTF-8");
    return found;
  }
  if (!document.is_json) {
    text.swap(document.bytes);
    return std::nullopt;
  }
  JsonField parsed = json_field(document.bytes, options.field);
  if (!parsed.error.empty()) return defect(Cause::bad_json, std::move(parsed.error));
  if (parsed.found_other)
    return defect(Cause::not_a_string, concat("'", escaped(options.field), "' is not a string"));
  if (!parsed.text)
    return defect(Cause::missing_field,
                  concat("no field '", escaped(options.field), "'",
                         parsed.other_fields.empty()
                             ? std::string("; the line is not an object")
                             : concat("; there are: ", escaped(parsed.other_fields))));
  text = std::move(*parsed.text);
  return std::nullopt;
}

}  // namespace hydramix
