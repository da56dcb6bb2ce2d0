// SPDX-License-Identifier: Apache-2.0
// The page of the server: the files of src/serve/page/, which the build compiles in.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

namespace hydramix {

struct PageFile {
  std::string_view content;
  std::string_view type;    // Content-Type
  std::string_view digest;  // SHA-256 in hexadecimal, for ETag
};

// Content-Security-Policy of every file: the page loads only its own files and calls only its own
// server. Neither scripts nor handlers nor style sheets may stand inside the HTML.
inline constexpr std::string_view kPagePolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

// The file at a path of the server: "/" is index.html, "/page.css" and the others have their names.
std::optional<PageFile> page_file(std::string_view path);

// The paths of all files, sorted.
std::vector<std::string_view> page_paths();

}  // namespace hydramix
