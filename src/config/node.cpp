// SPDX-License-Identifier: Apache-2.0
// Builds the Node tree from the events of yaml-cpp's parser.
#include "config/node.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <sstream>
#include <utility>

#include "base/read_file.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

// Recipes are three levels deep. The limit keeps a hostile one from exhausting the stack.
constexpr std::size_t kMaxDepth = 32;
constexpr std::size_t kMaxShown = 80;

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(const std::string& origin) : origin_(origin) {}

  Node root;

  void OnDocumentStart(const YAML::Mark& mark) override {
    HYDRAMIX_CHECK_USAGE(++documents_ == 1, at(mark),
                         ": a second document starts here, expected one. Remove the '---' line or "
                         "what follows it.");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    attach(node(mark, Node::Kind::kNull, "?", anchor));
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse_anchor(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    Node scalar = node(mark, Node::Kind::kScalar, tag, anchor);
    scalar.text = value;
    scalar.quoted = tag == "!";
    attach(std::move(scalar));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(node(mark, Node::Kind::kSequence, tag, anchor));
  }
  void OnSequenceEnd() override { close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(node(mark, Node::Kind::kMap, tag, anchor));
  }
  void OnMapEnd() override { close(); }

 private:
  std::string at(const YAML::Mark& mark) const { return place(origin_, mark.line + 1); }

  [[noreturn]] void refuse_anchor(const YAML::Mark& mark) const {
    throw UsageError(concat(at(mark),
                            ": anchors (&name) and aliases (*name) are not supported. "
                            "Write the value out, or put it in quotes if it is a text."));
  }

  Node node(const YAML::Mark& mark, Node::Kind kind, const std::string& tag,
            YAML::anchor_t anchor) const {
    if (anchor != YAML::NullAnchor) refuse_anchor(mark);
    HYDRAMIX_CHECK_USAGE(tag.empty() || tag == "?" || tag == "!", at(mark), ": the tag '", tag,
                         "' is not supported. Remove it: types come from the options.");
    Node result;
    result.kind = kind;
    result.line = mark.line + 1;
    return result;
  }

  void open(Node node) {
    HYDRAMIX_CHECK_USAGE(open_.size() < kMaxDepth, place(origin_, node.line),
                         ": nested deeper than ", kMaxDepth, " levels, which no option is.");
    open_.push_back(std::move(node));
  }
  void close() {
    Node done = std::move(open_.back());
    open_.pop_back();
    attach(std::move(done));
  }
  void attach(Node done) {
    if (open_.empty()) {
      root = std::move(done);
      return;
    }
    Node& parent = open_.back();
    const bool is_key =
        parent.kind == Node::Kind::kMap && parent.keys.size() == parent.items.size();
    (is_key ? parent.keys : parent.items).push_back(std::move(done));
  }

  const std::string& origin_;
  std::vector<Node> open_;
  int documents_ = 0;
};

}  // namespace

Node scalar_node(std::string text) {
  Node node;
  node.kind = Node::Kind::kScalar;
  node.text = std::move(text);
  return node;
}

Node sequence_node(const std::vector<std::string>& texts) {
  Node node;
  node.kind = Node::Kind::kSequence;
  for (const std::string& text : texts) node.items.push_back(scalar_node(text));
  return node;
}

std::string place(const std::string& origin, int line) {
  return line > 0 ? concat(origin, ":", line) : origin;
}

std::string shown(const Node& node) {
  switch (node.kind) {
    case Node::Kind::kNull:
      return "nothing";
    case Node::Kind::kSequence:
      return "a list";
    case Node::Kind::kMap:
      return "a mapping";
    case Node::Kind::kScalar:
      break;
  }
  const std::string text =
      node.text.size() <= kMaxShown ? node.text : node.text.substr(0, kMaxShown) + "...";
  return node.quoted ? "\"" + text + "\" in quotes" : "'" + text + "'";
}

Node parse_document(const std::string& text, const std::string& origin) {
  HYDRAMIX_CHECK_USAGE(static_cast<int64_t>(text.size()) <= kRecipeFile.limit, origin,
                       ": larger than ", kRecipeFile.limit,
                       " bytes, expected a configuration. Check the path.");
  std::istringstream in(text);
  TreeBuilder builder(origin);
  try {
    YAML::Parser parser(in);
    while (parser.HandleNextDocument(builder)) continue;
  } catch (const YAML::Exception& error) {
    throw UsageError(concat(origin, ":", error.mark.line + 1, ":", error.mark.column + 1,
                            ": not valid YAML: ", error.msg, "."));
  }
  return std::move(builder.root);
}

std::string read_configuration(const std::filesystem::path& path) {
  try {
    return read_file(path, kRecipeFile);
  } catch (const Error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace hydramix
