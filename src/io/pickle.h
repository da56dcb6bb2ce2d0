// SPDX-License-Identifier: Apache-2.0
// Reading Python pickles (protocols 2 to 5) as inert data. A pickle is a program for a small stack
// machine, which in Python may call anything it can name. Here nothing is ever called: a name stays
// a name, and a call becomes a record of the callable and its arguments. The caller interprets the
// few names it knows.
//
// Values live in one table and refer to each other by index. They may form cycles and share parts:
// bound the depth and the steps of a traversal.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace hydramix::pickle {

using Id = std::uint32_t;
inline constexpr Id kNothing = 0;  // every document's value 0 is None

enum class Kind : std::uint8_t {
  kNone,
  kBool,         // integer
  kInteger,      // integer
  kHugeInteger,  // beyond 64 bits; text has its little-endian bytes
  kFloat,        // real
  kText,         // text
  kBytes,        // text
  kTuple,        // items
  kList,         // items
  kSet,          // items
  kDict,         // items: key, value, key, value, ... in the order of insertion
  kGlobal,       // module, text: something importable, by name
  kPersistent,   // callable: the id of something stored outside of the pickle
  kObject        // a call that was not made: callable, arguments (a tuple), state; items as a dict
};

struct Value {
  Kind kind = Kind::kNone;
  std::int64_t integer = 0;
  double real = 0;
  std::string_view text, module;
  std::vector<Id> items;
  Id callable = kNothing, arguments = kNothing, state = kNothing;

  bool is_global(std::string_view of_module, std::string_view name) const {
    return kind == Kind::kGlobal && module == of_module && text == name;
  }
};

class Document {
 public:
  // Values view `bytes`, which must outlive the document. Throws Error, naming `origin`, when the
  // program is malformed, uses an opcode that no checkpoint needs, or creates more than kMaxValues
  // values.
  static Document parse(std::span<const std::byte> bytes, const std::string& origin);
  static constexpr std::size_t kMaxValues = std::size_t{1} << 21;

  const Value& operator[](Id id) const { return values_[id]; }
  Id root() const { return root_; }

 private:
  friend class Machine;
  std::vector<Value> values_;
  Id root_ = kNothing;
};

}  // namespace hydramix::pickle
