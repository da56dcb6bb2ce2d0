// SPDX-License-Identifier: Apache-2.0
// One field and its value: parsing, checking and showing it. The only file that knows the types.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

#include "config/node.h"
#include "hydramix/options.h"

namespace hydramix {

// Errors read "origin:line: path: got ..., expected ..."; with an empty origin they begin at path.
void assign(const Field& field, const Node& given, const std::string& origin);

// Parses a command line argument for a field: a text unchanged, or for a list 1,2,3 or [1, 2, 3].
Node from_text(const Field& field, const std::string& text, const std::string& origin);

// Throws UsageError unless the field's value obeys its constraints.
void check(const Field& field);

bool is_empty(const Field& field);  // an empty text or list
nlohmann::ordered_json value_json(const Field& field);

std::string type_text(const Field& field);      // "integer", "list of integers"
std::string allowed_text(const Field& field);   // "1 to 4096", "a, b"; empty when anything goes
std::string expected_text(const Field& field);  // "an integer from 1 to 4096", "one of: a, b"
std::string value_text(const Field& field);     // "64", "a, b"

}  // namespace hydramix
