// SPDX-License-Identifier: Apache-2.0
// A strict reader for the part of XML that our SVG files use: a declaration, elements with
// double-quoted attributes, text, the five named entities. Throws on anything else.
#pragma once

#include <cctype>
#include <cstddef>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace hydramix::test {

struct XmlElement {
  std::string name, text;  // text: its own, entities resolved
  std::map<std::string, std::string> attributes;
};

class XmlReader {
 public:
  // All elements, in the order in which they open.
  static std::vector<XmlElement> read(const std::string& xml) {
    XmlReader reader(xml);
    reader.expect("<?xml version=\"1.0\" encoding=\"UTF-8\"?>");
    reader.skip_space();
    reader.element();
    reader.skip_space();
    if (reader.at_ != xml.size()) reader.fail("something follows the root");
    return reader.elements_;
  }

 private:
  explicit XmlReader(const std::string& xml) : xml_(xml) {}

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + " at byte " + std::to_string(at_) + ": " +
                             xml_.substr(at_, 40));
  }
  char peek() const {
    if (at_ >= xml_.size()) fail("unexpected end");
    return xml_[at_];
  }
  bool take(const std::string& text) {
    if (xml_.compare(at_, text.size(), text) != 0) return false;
    at_ += text.size();
    return true;
  }
  void expect(const std::string& text) {
    if (!take(text)) fail("expected " + text);
  }
  void skip_space() {
    while (at_ < xml_.size() && (xml_[at_] == ' ' || xml_[at_] == '\n')) ++at_;
  }
  std::string name() {
    const std::size_t from = at_;
    while (std::isalnum(static_cast<unsigned char>(peek())) || peek() == ':' || peek() == '-')
      ++at_;
    if (at_ == from) fail("expected a name");
    return xml_.substr(from, at_ - from);
  }
  // Characters up to `stop`, which stays unread.
  std::string characters(char stop) {
    static const std::map<std::string, char> entities{
        {"&amp;", '&'}, {"&lt;", '<'}, {"&gt;", '>'}, {"&quot;", '"'}, {"&apos;", '\''}};
    std::string out;
    while (peek() != stop) {
      if (peek() == '<') fail("bare <");
      if (peek() == '&') {
        const std::size_t end = xml_.find(';', at_);
        const auto entity = entities.find(xml_.substr(at_, end - at_ + 1));
        if (entity == entities.end()) fail("unknown entity");
        out += entity->second;
        at_ = end + 1;
      } else {
        const auto byte = static_cast<unsigned char>(peek());
        if (byte != '\n' && (byte < ' ' || byte == 0x7F)) fail("raw byte");
        out += xml_[at_++];
      }
    }
    return out;
  }
  void element() {
    expect("<");
    const std::size_t place = elements_.size();
    elements_.push_back({name(), "", {}});
    const std::string opened = elements_[place].name;
    while (peek() == ' ') {
      ++at_;
      const std::string key = name();
      expect("=\"");
      if (!elements_[place].attributes.emplace(key, characters('"')).second) fail("given twice");
      expect("\"");
    }
    if (take("/>")) return;
    expect(">");
    while (true) {
      elements_[place].text += characters('<');
      if (take("</")) break;
      element();
    }
    if (name() != opened) fail("wrong end tag, " + opened + " is open");
    expect(">");
  }

  const std::string& xml_;
  std::size_t at_ = 0;
  std::vector<XmlElement> elements_;
};

// The elements of one name.
inline std::vector<XmlElement> named(const std::vector<XmlElement>& elements,
                                     const std::string& name) {
  std::vector<XmlElement> out;
  for (const auto& element : elements)
    if (element.name == name) out.push_back(element);
  return out;
}

}  // namespace hydramix::test
