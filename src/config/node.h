// SPDX-License-Identifier: Apache-2.0
// A parsed value before it is assigned to a field: a YAML or JSON document, or the text of a
// command line option. Not yaml-cpp's own node type, because that one loses the position of keys,
// follows aliases into cycles, and silently drops a second document.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace hydramix {

struct Node {
  enum class Kind { kNull, kScalar, kSequence, kMap };

  Kind kind = Kind::kNull;
  std::string text;         // of a scalar
  bool quoted = false;      // "12" in quotes is a text, never a number
  int line = 0;             // from 1; 0 when there is no file
  std::vector<Node> keys;   // of a map, one for each item
  std::vector<Node> items;  // of a map or sequence
};

Node scalar_node(std::string text);
Node sequence_node(const std::vector<std::string>& texts);

// "recipe.yaml:3", or only the origin when the line is not known.
std::string place(const std::string& origin, int line);

// How errors show a value: 'text', "text" in quotes, a list, a mapping, nothing.
std::string shown(const Node& node);

// One document of YAML, or JSON, which is a part of YAML. An empty text is a null. Refuses anchors,
// aliases and tags: no recipe needs them, and without them the tree is no larger than its text.
Node parse_document(const std::string& text, const std::string& origin);

// The text of a configuration file; UsageError when it cannot be read or is too large to be one.
std::string read_configuration(const std::filesystem::path& path);

}  // namespace hydramix
