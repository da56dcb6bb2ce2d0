// SPDX-License-Identifier: Apache-2.0
// libFuzzer target for the readers of JSON: what parse_json accepts, the library accepts, and both
// give the same value; json_field refuses or finds what the tree has.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/json_reader.h"
#include "data/json_field.h"
#include "hydramix/error.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto field = hydramix::json_field(text, "text");
  try {
    const auto value = hydramix::parse_json<nlohmann::json>(text, "fuzz input");
    const auto ordered = hydramix::parse_json(text, "fuzz input");
    const auto expected = nlohmann::json::parse(hydramix::without_byte_order_mark(text));
    if (value != expected || nlohmann::json::parse(ordered.dump()) != expected) __builtin_trap();
    const bool marked = text.starts_with(hydramix::kByteOrderMark);
    const bool found = value.is_object() && value.contains("text") && value["text"].is_string();
    if (!marked && found != field.text.has_value()) __builtin_trap();
    if (!marked && found && *field.text != value["text"].get<std::string>()) __builtin_trap();
  } catch (const hydramix::Error&) {
    if (!hydramix::try_parse_json(text).is_discarded()) __builtin_trap();
  }
  return 0;
}
