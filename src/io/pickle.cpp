// SPDX-License-Identifier: Apache-2.0
// The stack machine. Memory is bounded by a constant times the length of the program: an opcode
// creates at most one value, moves values on the stack, or refers to existing ones. A count in the
// file is not trusted before the bytes it promises are seen.
#include <bit>
#include <unordered_map>
#include <utility>

#include "base/formatted.h"
#include "base/quotes.h"
#include "hydramix/error.h"
#include "io/byte_cursor.h"
#include "io/pickle.h"

namespace hydramix::pickle {

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, const std::string& origin)
      : origin_(origin), cursor_(bytes, origin) {
    HYDRAMIX_CHECK(bytes.size() <= kMaxBytes, origin, ": the pickle has ", bytes.size(),
                   " bytes, more than the ", kMaxBytes,
                   " of any list of tensors. Save the weights alone.");
    document_.values_.emplace_back();
  }

  Document run() {
    while (step(cursor_.u8())) {
    }
    if (cursor_.left() != 0) fail(concat(cursor_.left(), " bytes follow its end"));
    if (stack_.size() != 1 || !marks_.empty())
      fail(concat("it ends with ", stack_.size(), " values on the stack, expected 1"));
    document_.root_ = stack_.back();
    return std::move(document_);
  }

 private:
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(concat(origin_, ": the pickle is malformed before its byte ", cursor_.position(),
                       ": ", what, ". The file is damaged or was not written by torch.save."));
  }

  Value& value(Id id) { return document_.values_[id]; }

  Id make(Kind kind, std::string_view text = {}) {
    HYDRAMIX_CHECK(document_.values_.size() < Document::kMaxValues, origin_,
                   ": the pickle makes more than ", Document::kMaxValues,
                   " values, more than a checkpoint needs. Save the weights alone, without the "
                   "rest of the training state.");
    Value& made = document_.values_.emplace_back();
    made.kind = kind;
    made.text = text;
    return static_cast<Id>(document_.values_.size() - 1);
  }
  void push(Id id) { stack_.push_back(id); }
  void push(Kind kind, std::string_view text = {}) { push(make(kind, text)); }
  void push_integer(Kind kind, std::int64_t integer) {
    push(kind);
    value(stack_.back()).integer = integer;
  }
  void push_text(Kind kind, std::uint64_t size) { push(kind, as_text(cursor_.take(size))); }

  // Values below the newest mark are inaccessible until the mark is removed.
  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
  Id top() const {
    if (stack_.size() <= floor()) fail("it needs a value that is not on the stack");
    return stack_.back();
  }
  Id pop() {
    const Id id = top();
    stack_.pop_back();
    return id;
  }
  std::vector<Id> pop_to_mark() {
    if (marks_.empty()) fail("it needs a mark that is not on the stack");
    const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
    std::vector<Id> items(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return items;
  }

  void push_items(Kind kind, std::vector<Id> items) {
    if (kind == Kind::kDict && items.size() % 2 != 0) fail("a dict has a key without a value");
    push(kind);
    value(stack_.back()).items = std::move(items);
  }
  void push_tuple(std::size_t count) {
    std::vector<Id> items(count);
    for (std::size_t i = count; i-- > 0;) items[i] = pop();
    push_items(Kind::kTuple, std::move(items));
  }

  void append(const std::vector<Id>& items) {
    Value& list = value(top());
    // Items of a list-like object of unknown type are dropped.
    if (list.kind == Kind::kObject) return;
    if (list.kind != Kind::kList && list.kind != Kind::kSet) fail("it appends to no list");
    list.items.insert(list.items.end(), items.begin(), items.end());
  }
  void set_items(const std::vector<Id>& items) {
    if (items.size() % 2 != 0) fail("a dict is given a key without a value");
    Value& dict = value(top());
    if (dict.kind != Kind::kDict && dict.kind != Kind::kObject) fail("it sets an item of no dict");
    dict.items.insert(dict.items.end(), items.begin(), items.end());
  }

  std::string_view line() {
    const std::size_t begin = cursor_.position();
    ByteCursor ahead = cursor_;
    while (ahead.u8() != '\n') {
    }
    return as_text(cursor_.take(ahead.position() - begin)).substr(0, ahead.position() - begin - 1);
  }
  void push_global(std::string_view module, std::string_view name) {
    push(Kind::kGlobal, name);
    value(stack_.back()).module = module;
  }
  void push_stack_global() {
    const Id name = pop(), module = pop();
    if (value(name).kind != Kind::kText || value(module).kind != Kind::kText)
      fail("a global is named by something other than two texts");
    push_global(value(module).text, value(name).text);
  }
  void push_call(Id callable, Id arguments) {
    if (value(arguments).kind != Kind::kTuple) fail("a call has no tuple of arguments");
    push(Kind::kObject);
    value(stack_.back()).callable = callable;
    value(stack_.back()).arguments = arguments;
  }
  void push_long(std::uint64_t size) {
    const auto bytes = cursor_.take(size);
    if (bytes.size() > 8) return push(Kind::kHugeInteger, as_text(bytes));
    const bool negative = !bytes.empty() && std::to_integer<unsigned>(bytes.back()) >= 0x80;
    std::uint64_t number = negative ? ~std::uint64_t{0} : 0;
    for (std::size_t i = bytes.size(); i-- > 0;)
      number = number << 8 | std::to_integer<std::uint64_t>(bytes[i]);
    push_integer(Kind::kInteger, static_cast<std::int64_t>(number));
  }
  void push_float() {  // the one big-endian number of the format
    std::uint64_t bits = 0;
    for (const std::byte byte : cursor_.take(8))
      bits = bits << 8 | std::to_integer<std::uint64_t>(byte);
    push(Kind::kFloat);
    value(stack_.back()).real = std::bit_cast<double>(bits);
  }

  void get(std::uint32_t key) {
    const auto found = memo_.find(key);
    if (found == memo_.end()) fail(concat("it recalls number ", key, ", which was not memorised"));
    push(found->second);
  }

  bool step(std::uint8_t opcode);  // false at the end of the program

  void put(std::uint32_t key) {
    memo_[key] = top();
    if (memo_.size() > Document::kMaxValues) fail("it memorises more than it makes");
  }

  static constexpr std::size_t kMaxBytes = std::size_t{1} << 28;

  const std::string& origin_;
  ByteCursor cursor_;
  Document document_;
  std::vector<Id> stack_;
  std::vector<std::size_t> marks_;  // sizes of the stack
  std::unordered_map<std::uint32_t, Id> memo_;
};

// One opcode per line.
// clang-format off
bool Machine::step(std::uint8_t opcode) {
  switch (opcode) {
    case 0x80: {  // PROTO
      const int protocol = cursor_.u8();
      if (protocol < 2 || protocol > 5) fail(concat("it is of protocol ", protocol));
      break;
    }
    case 0x95: cursor_.skip(8); break;  // FRAME: a hint for buffering
    case '.': return false;             // STOP

    case '(': marks_.push_back(stack_.size()); break;  // MARK
    case '0':                                          // POP takes a mark too
      if (!marks_.empty() && stack_.size() == floor())
        marks_.pop_back();
      else
        pop();
      break;
    case '1': pop_to_mark(); break;  // POP_MARK
    case '2': push(top()); break;    // DUP

    case 'N': push(Kind::kNone); break;
    case 0x88: push_integer(Kind::kBool, 1); break;                // NEWTRUE
    case 0x89: push_integer(Kind::kBool, 0); break;                // NEWFALSE
    case 'K': push_integer(Kind::kInteger, cursor_.u8()); break;   // BININT1
    case 'M': push_integer(Kind::kInteger, cursor_.u16()); break;  // BININT2
    case 'J':                                                      // BININT
      push_integer(Kind::kInteger, static_cast<std::int32_t>(cursor_.u32()));
      break;
    case 0x8a: push_long(cursor_.u8()); break;   // LONG1
    case 0x8b: push_long(cursor_.u32()); break;  // LONG4
    case 'G': push_float(); break;               // BINFLOAT

    case 0x8c: push_text(Kind::kText, cursor_.u8()); break;    // SHORT_BINUNICODE
    case 'X': push_text(Kind::kText, cursor_.u32()); break;    // BINUNICODE
    case 0x8d: push_text(Kind::kText, cursor_.u64()); break;   // BINUNICODE8
    case 'U': push_text(Kind::kText, cursor_.u8()); break;     // SHORT_BINSTRING, of Python 2
    case 'T': push_text(Kind::kText, cursor_.u32()); break;    // BINSTRING, of Python 2
    case 'C': push_text(Kind::kBytes, cursor_.u8()); break;    // SHORT_BINBYTES
    case 'B': push_text(Kind::kBytes, cursor_.u32()); break;   // BINBYTES
    case 0x8e:                                                 // BINBYTES8
    case 0x96: push_text(Kind::kBytes, cursor_.u64()); break;  // BYTEARRAY8

    case ')': push(Kind::kTuple); break;
    case 0x85: push_tuple(1); break;
    case 0x86: push_tuple(2); break;
    case 0x87: push_tuple(3); break;
    case 't': push_items(Kind::kTuple, pop_to_mark()); break;
    case ']': push(Kind::kList); break;
    case 'l': push_items(Kind::kList, pop_to_mark()); break;
    case 'a': append({pop()}); break;                         // APPEND
    case 'e': append(pop_to_mark()); break;                   // APPENDS
    case 0x8f: push(Kind::kSet); break;                       // EMPTY_SET
    case 0x90: append(pop_to_mark()); break;                  // ADDITEMS
    case 0x91: push_items(Kind::kSet, pop_to_mark()); break;  // FROZENSET
    case '}': push(Kind::kDict); break;
    case 'd': push_items(Kind::kDict, pop_to_mark()); break;
    case 's': {  // SETITEM
      const Id item = pop(), key = pop();
      set_items({key, item});
      break;
    }
    case 'u': set_items(pop_to_mark()); break;  // SETITEMS

    case 'q': put(cursor_.u8()); break;                               // BINPUT
    case 'r': put(cursor_.u32()); break;                              // LONG_BINPUT
    case 0x94: put(static_cast<std::uint32_t>(memo_.size())); break;  // MEMOIZE
    case 'h': get(cursor_.u8()); break;                               // BINGET
    case 'j': get(cursor_.u32()); break;                              // LONG_BINGET

    case 'c': {  // GLOBAL
      const auto module = line();
      push_global(module, line());
      break;
    }
    case 0x93: push_stack_global(); break;  // STACK_GLOBAL
    case 'Q': {                             // BINPERSID
      const Id name = pop();
      push(Kind::kPersistent);
      value(stack_.back()).callable = name;
      break;
    }
    case 'R':     // REDUCE
    case 0x81: {  // NEWOBJ
      const Id arguments = pop();
      push_call(pop(), arguments);
      break;
    }
    case 0x92: {  // NEWOBJ_EX: keyword arguments are not needed
      pop();
      const Id arguments = pop();
      push_call(pop(), arguments);
      break;
    }
    case 'b': {  // BUILD
      const Id state = pop();
      if (value(top()).kind != Kind::kObject) fail("it sets the state of no object");
      value(top()).state = state;
      break;
    }
    default:
      fail(formatted("the opcode 0x%02llx is unknown, or one that torch.save does not use",
                     static_cast<long long>(opcode)));
  }
  return true;
}
// clang-format on

Document Document::parse(std::span<const std::byte> bytes, const std::string& origin) {
  return Machine(bytes, origin).run();
}

}  // namespace hydramix::pickle
