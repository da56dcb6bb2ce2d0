// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for tables and JSON lines, plain or packed: any file is refused with an Error or
// gives rows of UTF-8; lines above a limit are skipped.
#include <cstddef>
#include <cstdint>

#include "data/line_reader.h"
#include "data/table_reader.h"
#include "data/text_source.h"
#include "hydramix/error.h"
#include "input_file.h"
#include "text/unicode.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static fuzz::InputFile file;
  const auto path = file.path_of(data, size);
  try {
    hydramix::TableReader table(path);
    while (table.next()) {
      if (table.cells().empty()) __builtin_trap();
      for (const auto cell : table.cells()) hydramix::unicode::check_utf8(cell);
    }
  } catch (const hydramix::Error&) {
  }
  try {
    for (hydramix::LineReader lines(hydramix::open_bytes(path), 64); lines.next();)
      if (lines.text().size() > 64) __builtin_trap();
  } catch (const hydramix::Error&) {
  }
  for (const bool per_line : {false, true}) {
    hydramix::TextOptions options;
    options.document_per_line = per_line;
    options.max_bytes = 256;
    hydramix::TextSource source({{path, static_cast<int64_t>(size)}}, options);
    hydramix::RawDocument document;
    std::string text;
    while (source.next(document)) {
      document.is_json = per_line;
      hydramix::extract_text(document, options, text);
    }
  }
  return 0;
}
