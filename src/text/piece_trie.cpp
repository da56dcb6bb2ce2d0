// SPDX-License-Identifier: Apache-2.0
#include "text/piece_trie.h"

#include <algorithm>
#include <limits>

#include "hydramix/error.h"

namespace hydramix {

// The tries as nodes with lists of children in breadth-first order: a parent precedes its children.
class PieceTrie::Builder {
 public:
  Builder(std::span<const std::string> tokens, std::string_view prefix, std::size_t longest) {
    nodes_.resize(2);  // the roots: of the tokens, and of the continuing pieces
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      const std::string_view token = tokens[id];
      if (token.empty() || token.size() > longest + prefix.size()) continue;
      insert(kTokens, token, static_cast<int32_t>(id));
      if (token.size() > prefix.size() && token.starts_with(prefix))
        insert(kPieces, token.substr(prefix.size()), static_cast<int32_t>(id));
    }
    sort_breadth_first();
    find_failures();
  }

  void place(PieceTrie& trie) const;

 private:
  static constexpr int32_t kTokens = 0, kPieces = 1;
  struct Child {
    unsigned char byte;
    int32_t node;
  };
  struct Node {
    std::vector<Child> children;
    int32_t token = kNone, parent = kNone;
    unsigned char byte = 0;
    Failure failure;
  };

  Node& at(int32_t node) { return nodes_[static_cast<std::size_t>(node)]; }
  const Node& at(int32_t node) const { return nodes_[static_cast<std::size_t>(node)]; }

  int32_t child(int32_t node, unsigned char byte) const {
    for (const Child& child : at(node).children)
      if (child.byte == byte) return child.node;
    return kNone;
  }

  void insert(int32_t node, std::string_view text, int32_t token) {
    for (const char letter : text) {
      const auto byte = static_cast<unsigned char>(letter);
      int32_t next = child(node, byte);
      if (next == kNone) {
        HYDRAMIX_CHECK(nodes_.size() < std::numeric_limits<int32_t>::max() / 4,
                       "the vocabulary has more than ", nodes_.size(), " prefixes. Use a smaller.");
        next = static_cast<int32_t>(nodes_.size());
        nodes_.push_back({{}, kNone, node, byte, {}});
        at(node).children.push_back({byte, next});
      }
      node = next;
    }
    at(node).token = token;
  }

  void sort_breadth_first() {
    order_ = {kTokens, kPieces};
    for (std::size_t k = 0; k < order_.size(); ++k)
      for (const Child& child : at(order_[k]).children) order_.push_back(child.node);
  }

  // At a token the failure link emits the token and leads to the root of the continuing pieces.
  // Elsewhere it is the parent's failure link followed by this node's byte.
  void find_failures() {
    for (const int32_t number : order_) {
      Node& node = at(number);
      if (node.parent == kNone) continue;
      node.failure.pops_begin = static_cast<int32_t>(pops_.size());
      if (node.token != kNone) {
        node.failure.node = kPieces;
        pops_.push_back(node.token);
      } else {
        const auto append = [&](const Failure& failure) {
          for (int32_t k = failure.pops_begin; k < failure.pops_end; ++k)
            pops_.push_back(pops_[static_cast<std::size_t>(k)]);
        };
        append(at(node.parent).failure);
        int32_t from = at(node.parent).failure.node;
        while (from != kNone && child(from, node.byte) == kNone) {
          append(at(from).failure);
          from = at(from).failure.node;
        }
        if (from != kNone)
          node.failure.node = child(from, node.byte);
        else
          pops_.resize(static_cast<std::size_t>(node.failure.pops_begin));
      }
      node.failure.pops_end = static_cast<int32_t>(pops_.size());
      HYDRAMIX_CHECK(pops_.size() < std::numeric_limits<int32_t>::max(),
                     "the vocabulary splits in too many ways. Use one with shorter tokens.");
    }
  }

  std::vector<Node> nodes_;
  std::vector<int32_t> order_, pops_;
};

// First fit: the lowest base at which all children find a free slot. The search starts at the first
// free slot and abandons slots that rarely fit, which keeps it nearly linear.
void PieceTrie::Builder::place(PieceTrie& trie) const {
  std::vector<int32_t> slot(nodes_.size(), kNone);
  auto& links = trie.links_;
  const auto reserve = [&](std::size_t size) { links.resize(size, {0, kNone}); };
  // Roots are their own parents, so no byte leads to them. Every base is at least 2.
  reserve(2);
  links[0].check = links[1].check = -2;
  slot[kTokens] = kStart;
  slot[kPieces] = 1;
  std::size_t search_from = 2;
  for (const int32_t number : order_) {
    const auto& children = at(number).children;
    const int32_t parent = slot[static_cast<std::size_t>(number)];
    if (children.empty()) continue;
    const auto least =
        std::min_element(children.begin(), children.end(),
                         [](const Child& a, const Child& b) { return a.byte < b.byte; });
    std::size_t tried = 0;
    std::size_t first = std::max<std::size_t>(search_from, std::size_t{least->byte} + 2);
    for (;; ++first) {
      reserve(std::max(links.size(), first + 512));
      if (links[first].check != kNone) continue;
      ++tried;
      const std::size_t base = first - least->byte;
      if (std::all_of(children.begin(), children.end(),
                      [&](const Child& child) { return links[base + child.byte].check == kNone; }))
        break;
    }
    if (tried > 64) search_from = std::max(search_from, first - std::min<std::size_t>(first, 4096));
    while (search_from < links.size() && links[search_from].check != kNone) ++search_from;
    const std::size_t base = first - least->byte;
    links[static_cast<std::size_t>(parent)].base = static_cast<int32_t>(base);
    for (const Child& child : children) {
      links[base + child.byte].check = parent;
      slot[static_cast<std::size_t>(child.node)] = static_cast<int32_t>(base + child.byte);
    }
  }
  // Room for base + 255 of the last nodes, and of nodes without children, whose base is 0.
  reserve(links.size() + 256);

  trie.continued_ = slot[kPieces];
  trie.failures_.resize(links.size());
  for (std::size_t k = 0; k < nodes_.size(); ++k) {
    Failure failure = nodes_[k].failure;
    if (failure.node != kNone) failure.node = slot[static_cast<std::size_t>(failure.node)];
    trie.failures_[static_cast<std::size_t>(slot[k])] = failure;
  }
  trie.pops_ = pops_;
}

PieceTrie::PieceTrie(std::span<const std::string> tokens, std::string_view prefix,
                     std::size_t longest) {
  Builder(tokens, prefix, longest).place(*this);
}

}  // namespace hydramix
