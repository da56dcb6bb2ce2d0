// SPDX-License-Identifier: Apache-2.0
// Parses JSON that may be damaged or hostile: in time linear in its length, with a limit on its
// depth, so that code that walks the tree (dump() recurses) cannot exhaust the stack. Refuses what
// the library accepts in silence: duplicate keys, whose first value would be lost, and a
// zero byte, after which the library ignores the rest. A byte order mark is skipped.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/read_file.h"

namespace hydramix {

// Our files and tokenizer.json have less than ten levels.
inline constexpr int64_t kJsonDepth = 64;

// `Json` is nlohmann::json or nlohmann::ordered_json, which keeps the order of keys but searches
// them one by one. An Error says "origin: is not JSON at byte 12: ..." and ends with `advice`.
template <class Json = nlohmann::ordered_json>
Json parse_json(std::string_view text, const std::string& origin, std::string_view advice = "");

// The same for a whole file.
template <class Json = nlohmann::ordered_json>
Json read_json(const std::filesystem::path& path, const FileKind& kind,
               std::string_view advice = "The file is damaged: restore it, or make it again.") {
  return parse_json<Json>(read_file(path, kind), path.string(), advice);
}

// For text that may be something else: where it is not JSON, a value that is_discarded().
template <class Json = nlohmann::ordered_json>
Json try_parse_json(std::string_view text);

extern template nlohmann::json parse_json(std::string_view, const std::string&, std::string_view);
extern template nlohmann::ordered_json parse_json(std::string_view, const std::string&,
                                                  std::string_view);
extern template nlohmann::json try_parse_json(std::string_view);
extern template nlohmann::ordered_json try_parse_json(std::string_view);

}  // namespace hydramix
