// SPDX-License-Identifier: Apache-2.0
// The header is read as a stream of JSON events by a small state machine. A document tree would
// merge duplicate keys silently and nest as deeply as the file does. Here the first unexpected
// event ends the reading, so the depth is at most three.
#include "io/safetensors_header.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix::safetensors {
namespace {

struct DTypeFacts {
  std::string_view name;
  std::size_t size;
};

// Facts about each type, in the order of DType.
constexpr DTypeFacts kDTypes[] = {{"BOOL", 1}, {"U8", 1},      {"I8", 1},      {"U16", 2},
                                  {"I16", 2},  {"U32", 4},     {"I32", 4},     {"U64", 8},
                                  {"I64", 8},  {"F8_E4M3", 1}, {"F8_E5M2", 1}, {"F16", 2},
                                  {"BF16", 2}, {"F32", 4},     {"F64", 8}};

const DTypeFacts& facts(DType dtype) {
  const auto index = static_cast<std::size_t>(dtype);
  HYDRAMIX_CHECK(index < std::size(kDTypes), "safetensors: ", index,
                 " is not a value of DType. Use one of its named constants.");
  return kDTypes[index];
}

class HeaderReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit HeaderReader(const std::string& origin) : origin_(origin) {}

  Header take() { return std::move(header_); }

  bool null() override { unexpected("null"); }
  bool boolean(bool value) override { unexpected(value ? "true" : "false"); }
  // Called for numbers with a minus sign only.
  bool number_integer(number_integer_t value) override {
    unexpected(value == 0 ? "-0" : std::to_string(value));
  }
  // Called for fractions, exponents and integers above 2^64.
  bool number_float(number_float_t, const string_t& text) override {
    unexpected(std::string(clipped(text, 40)));
  }
  bool binary(binary_t&) override { unexpected("binary data"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (at_ == At::kShapeItem && value <= std::numeric_limits<std::int64_t>::max()) {
      entry_.shape.push_back(static_cast<std::int64_t>(value));
    } else if (at_ == At::kOffsetsItem) {
      if (offset_count_ < 2) (offset_count_ == 0 ? entry_.begin : entry_.end) = value;
      ++offset_count_;
    } else {
      unexpected(std::to_string(value));
    }
    return true;
  }

  bool string(string_t& value) override {
    if (at_ == At::kDTypeValue) {
      entry_.dtype = known_dtype(value);
      at_ = At::kTensor;
    } else if (at_ == At::kMetadataItem) {
      header_.metadata[metadata_key_] = std::move(value);
      at_ = At::kMetadata;
    } else {
      unexpected(in_quotes(value));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    switch (at_) {
      case At::kStart:
        at_ = At::kRoot;
        return true;
      case At::kTensorValue:
        at_ = At::kTensor;
        return true;
      case At::kMetadataValue:
        at_ = At::kMetadata;
        return true;
      default:
        unexpected("an object");
    }
  }

  bool start_array(std::size_t) override {
    switch (at_) {
      case At::kShapeValue:
        at_ = At::kShapeItem;
        return true;
      case At::kOffsetsValue:
        at_ = At::kOffsetsItem;
        return true;
      default:
        unexpected("an array");
    }
  }

  bool end_array() override {
    if (at_ == At::kOffsetsItem && offset_count_ != 2)
      unexpected(concat(offset_count_, " of them"));
    at_ = At::kTensor;
    return true;
  }

  bool end_object() override {
    if (at_ == At::kTensor) {
      for (std::size_t field = 0; field < kFields.size(); ++field)
        if (!seen_[field])
          fail("tensor ", in_quotes(entry_.name), " lacks the field ", in_quotes(kFields[field]),
               "; it needs dtype, shape and data_offsets.");
      header_.tensors.push_back(std::move(entry_));
    }
    at_ = At::kRoot;
    return true;
  }

  bool key(string_t& name) override {
    if (at_ == At::kRoot && name == kMetadataKey) {
      if (std::exchange(has_metadata_, true)) fail("\"__metadata__\" occurs twice.");
      at_ = At::kMetadataValue;
    } else if (at_ == At::kRoot) {
      if (!names_.insert(name).second)
        fail("tensor ", in_quotes(name), " occurs twice; names must be unique.");
      entry_ = HeaderEntry{};
      entry_.name = std::move(name);
      seen_ = {};
      offset_count_ = 0;
      at_ = At::kTensorValue;
    } else if (at_ == At::kTensor) {
      const auto field = std::find(kFields.begin(), kFields.end(), name);
      if (field == kFields.end())
        fail("tensor ", in_quotes(entry_.name), " has the unknown field ", in_quotes(name),
             "; known are ", join({kFields.begin(), kFields.end()}), ".",
             did_you_mean(clipped(name, 64), {kFields.begin(), kFields.end()}));
      const auto index = static_cast<std::size_t>(field - kFields.begin());
      if (std::exchange(seen_[index], true))
        fail("tensor ", in_quotes(entry_.name), " has the field ", in_quotes(name), " twice.");
      constexpr std::array<At, 3> kNext = {At::kDTypeValue, At::kShapeValue, At::kOffsetsValue};
      at_ = kNext[index];
    } else {
      if (header_.metadata.contains(name))
        fail("\"__metadata__\" has the key ", in_quotes(name), " twice.");
      metadata_key_ = std::move(name);
      at_ = At::kMetadataItem;
    }
    return true;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::json::exception& error) override {
    // The library's message starts with an identifier in brackets and, for syntax errors, the
    // position again. It may also quote a whole token, which in_quotes truncates.
    std::string_view reason = error.what();
    if (const auto syntax = reason.find("syntax error"); syntax != reason.npos)
      reason.remove_prefix(syntax);
    else if (const auto bracket = reason.find("] "); bracket != reason.npos)
      reason.remove_prefix(bracket + 2);
    fail("the header is not valid JSON at its byte ", position, ": ", in_quotes(reason), ".");
  }

 private:
  // The position in the header. ...Value: its single value must come next; ...Item: inside an array
  // or a metadata entry; the others: between keys.
  enum class At {
    kStart,
    kRoot,
    kTensorValue,
    kTensor,
    kDTypeValue,
    kShapeValue,
    kShapeItem,
    kOffsetsValue,
    kOffsetsItem,
    kMetadataValue,
    kMetadata,
    kMetadataItem
  };
  static constexpr std::array<const char*, 3> kFields = {"dtype", "shape", "data_offsets"};

  template <class... Parts>
  [[noreturn]] void fail(const Parts&... parts) const {
    throw Error(concat(origin_, ": ", parts..., kDamaged));
  }

  [[noreturn]] void unexpected(const std::string& got) const {
    const std::string tensor = concat("tensor ", in_quotes(entry_.name));
    switch (at_) {
      case At::kTensorValue:
        fail(tensor, " must be an object with dtype, shape and data_offsets; got ", got, ".");
      case At::kDTypeValue:
        fail(tensor, ": dtype must be a string such as \"F32\"; got ", got, ".");
      case At::kShapeValue:
      case At::kShapeItem:
        fail(tensor, ": shape must be an array of non-negative integers below 2^63; got ", got,
             ".");
      case At::kOffsetsValue:
      case At::kOffsetsItem:
        fail(tensor, ": data_offsets must be an array of two non-negative integers; got ", got,
             ".");
      case At::kMetadataItem:
        fail("\"__metadata__\": the value of ", in_quotes(metadata_key_), " must be a string; got ",
             got, ".");
      default:
        fail("\"__metadata__\" must be an object of strings; got ", got, ".");
    }
  }

  DType known_dtype(const std::string& name) const {
    for (std::size_t i = 0; i < std::size(kDTypes); ++i)
      if (kDTypes[i].name == name) return static_cast<DType>(i);
    std::vector<std::string> known;
    for (const auto& dtype : kDTypes) known.emplace_back(dtype.name);
    fail("tensor ", in_quotes(entry_.name), ": unknown dtype ", in_quotes(name), "; known are ",
         join(known), ".", did_you_mean(clipped(name, 64), known));
  }

  const std::string& origin_;
  Header header_;
  At at_ = At::kStart;
  std::set<std::string> names_;
  bool has_metadata_ = false;
  std::string metadata_key_;
  HeaderEntry entry_;  // the tensor being read
  std::array<bool, 3> seen_ = {};
  std::size_t offset_count_ = 0;
};

}  // namespace

std::string_view dtype_name(DType dtype) { return facts(dtype).name; }
std::size_t dtype_size(DType dtype) { return facts(dtype).size; }

Header parse_header(std::string_view json, const std::string& origin) {
  HYDRAMIX_CHECK(json.starts_with('{'), origin, ": the header must start with '{'; it starts with ",
                 in_quotes(json.substr(0, 1)), ". This is not a safetensors file.");
  // The JSON library treats a zero byte as the end of its input and would ignore the rest.
  const auto zero = json.find('\0');
  HYDRAMIX_CHECK(zero == json.npos, origin,
                 ": the header is not valid JSON: zero byte at its byte ", zero, ".", kDamaged);
  HeaderReader reader(origin);
  nlohmann::json::sax_parse(json, &reader);
  return reader.take();
}

std::optional<std::uint64_t> byte_size(DType dtype, const std::vector<std::int64_t>& shape) {
  constexpr std::uint64_t kLimit = std::numeric_limits<std::int64_t>::max();
  std::uint64_t size = dtype_size(dtype);
  bool empty = false;
  for (const std::int64_t extent : shape) {
    empty = empty || extent == 0;
    const auto factor = static_cast<std::uint64_t>(std::max<std::int64_t>(extent, 1));
    if (size > kLimit / factor) return std::nullopt;
    size *= factor;
  }
  return empty ? 0 : size;
}

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string out = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) out += ", ";
    if (i == 16) return out + "...]";
    out += std::to_string(shape[i]);
  }
  return out + "]";
}

}  // namespace hydramix::safetensors
