// SPDX-License-Identifier: Apache-2.0
// The walk is bounded in depth, in steps and in the length of names, because values of a pickle may
// contain themselves, and twenty lists that each hold the next one ten times are a tree of 10^20.
#include "io/state_dict.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "io/torch_limits.h"

namespace hydramix::torch_archive {
namespace {

using pickle::Id;
using pickle::Kind;
using pickle::Value;

constexpr int kMaxNesting = 32;
constexpr std::size_t kMaxSteps = std::size_t{1} << 20;
constexpr std::size_t kShown = 5;

std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> shown(
      names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kShown)));
  if (shown.size() < names.size()) shown.push_back("...");
  return join(shown);
}

class Walker {
 public:
  Walker(const pickle::Document& document, const TensorReader& reader, const std::string& origin)
      : document_(document), reader_(reader), origin_(origin) {}

  // The dict of weights inside a training state, and the path to it.
  std::optional<Id> find_weights(Id id, int depth, std::string& path,
                                 std::vector<std::string>& beside) const {
    const auto* items = entries(id);
    if (items == nullptr || depth == 0) return std::nullopt;
    // Composer's checkpoints have state.model; "state" alone is more often an optimizer's.
    for (const std::string key : {"state_dict", "model_state_dict", "model", "state"}) {
      const auto inner = find(*items, key);
      if (!inner) continue;
      auto weights = find_weights(*inner, depth - 1, path, beside);
      if (!weights && key != "state" && has_tensors(*inner)) weights = inner;
      if (!weights) continue;
      path = path.empty() ? key : key + "." + path;
      for (std::size_t i = 0; i < items->size() && beside.size() <= kShown; i += 2)
        if (const auto name = key_text((*items)[i]); name && *name != key)
          beside.push_back(escaped(clipped(*name, 40)));
      return weights;
    }
    return std::nullopt;
  }

  void collect(Id id, const std::string& name, int depth) {
    HYDRAMIX_CHECK(++steps_ <= kMaxSteps && depth <= kMaxNesting, origin_,
                   ": its values are nested without end. Save the model's state_dict() alone.");
    if (reader_.is_tensor(id)) {
      HYDRAMIX_CHECK(found.size() < kMaxTensors, origin_, ": has more than ", kMaxTensors,
                     " tensors. Save the model's state_dict() alone.");
      found.push_back({depth == 0 ? "tensor" : name, id});
      return;
    }
    const Value& value = document_[reader_.unwrapped(id)];
    if (const auto* items = entries(id)) {
      for (std::size_t i = 0; i < items->size(); i += 2)
        if (const auto key = key_text((*items)[i]))
          collect((*items)[i + 1], joined(name, *key, depth), depth + 1);
        else
          skip(joined(name, "?", depth));
    } else if (value.kind == Kind::kList || value.kind == Kind::kTuple) {
      for (std::size_t i = 0; i < value.items.size(); ++i)
        collect(value.items[i], joined(name, std::to_string(i), depth), depth + 1);
    } else {
      refuse_unknown_tensor(value, name);
      skip(name);
    }
  }

  // Describes a file without tensors.
  std::string root_text() const {
    const Value& root = document_[document_.root()];
    const Value& type = document_[root.callable];
    if (root.kind != Kind::kObject || type.kind != Kind::kGlobal)
      return concat("values that are none: ", listed(left_out));
    return concat("an object of ",
                  in_quotes(concat(clipped(type.module, 80), ".", clipped(type.text, 80))));
  }

  std::vector<NamedTensor> found;
  std::vector<std::string> left_out;  // the first few
  std::size_t left_out_count = 0;

 private:
  // Alternating keys and values of anything like a dict; nullptr for other values.
  const std::vector<Id>* entries(Id id) const {
    const Value& value = document_[reader_.unwrapped(id)];
    if (value.kind == Kind::kDict) return &value.items;
    if (value.kind != Kind::kObject) return nullptr;
    const Value& type = document_[value.callable];
    if (type.is_global("collections", "OrderedDict") ||
        type.is_global("collections", "defaultdict"))
      return &value.items;
    // A module that torch::save or TorchScript wrote: its attributes.
    if (type.kind == Kind::kGlobal && type.module.starts_with("__torch__"))
      if (const Value& state = document_[value.state]; state.kind == Kind::kDict)
        return &state.items;
    return nullptr;
  }

  std::optional<Id> find(const std::vector<Id>& items, std::string_view key) const {
    for (std::size_t i = 0; i < items.size(); i += 2)
      if (document_[items[i]].kind == Kind::kText && document_[items[i]].text == key)
        return items[i + 1];
    return std::nullopt;
  }

  bool has_tensors(Id id) const {
    const auto* items = entries(id);
    if (items == nullptr) return false;
    for (std::size_t i = 1; i < items->size(); i += 2)
      if (reader_.is_tensor((*items)[i])) return true;
    return false;
  }

  std::optional<std::string> key_text(Id id) const {
    const Value& key = document_[id];
    if (key.kind == Kind::kText) return std::string(clipped(key.text, kLongestName + 1));
    if (key.kind == Kind::kInteger) return std::to_string(key.integer);
    return std::nullopt;
  }

  // The name may be empty below the root too: a dict can have the key "".
  std::string joined(const std::string& name, const std::string& key, int depth) const {
    std::string whole = depth == 0 ? key : name + "." + key;
    HYDRAMIX_CHECK(whole.size() <= kLongestName, origin_, ": the name ", in_quotes(whole),
                   " is longer than ", kLongestName, " bytes. Shorten it.");
    return whole;
  }

  // A tensor of an unsupported kind must not be skipped silently.
  void refuse_unknown_tensor(const Value& value, const std::string& name) const {
    if (value.kind != Kind::kObject) return;
    const Value& callable = document_[value.callable];
    HYDRAMIX_CHECK(callable.kind != Kind::kGlobal || !callable.text.starts_with("_rebuild") ||
                       !callable.module.starts_with("torch"),
                   origin_, ": ", in_quotes(name), " is a tensor made by ",
                   in_quotes(concat(callable.module, ".", clipped(callable.text, 80))),
                   ", which cannot be read. Save it as an ordinary dense tensor.");
  }

  void skip(const std::string& name) {
    if (left_out.size() <= kShown) left_out.push_back(name.empty() ? "its root" : escaped(name));
    ++left_out_count;
  }

  const pickle::Document& document_;
  const TensorReader& reader_;
  const std::string& origin_;
  std::size_t steps_ = 0;
};

// Removes the prefix that training wrappers add to all names, and returns it.
std::string strip_shared_prefix(std::vector<NamedTensor>& tensors) {
  std::string stripped;
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view prefix : {"module.", "_orig_mod.", "model."}) {
      const bool shared = std::all_of(tensors.begin(), tensors.end(), [&](const auto& tensor) {
        return tensor.name.starts_with(prefix) && tensor.name.size() > prefix.size();
      });
      if (!shared || tensors.empty()) continue;
      for (auto& tensor : tensors) tensor.name.erase(0, prefix.size());
      stripped += prefix;
      again = true;
    }
  }
  return stripped;
}

}  // namespace

StateDict find_tensors(const pickle::Document& document, const TensorReader& reader,
                       Selection selection, const std::string& origin) {
  StateDict result;
  Walker walker(document, reader, origin);
  Id start = document.root();
  if (selection == Selection::kWeights) {
    std::string path;
    std::vector<std::string> beside;
    if (const auto inner = walker.find_weights(start, 4, path, beside)) {
      start = *inner;
      result.notes.push_back(concat("took the weights under ", in_quotes(path),
                                    beside.empty() ? "" : " and left out " + listed(beside)));
    }
  }
  walker.collect(start, "", 0);
  result.tensors = std::move(walker.found);
  HYDRAMIX_CHECK(
      !result.tensors.empty() || walker.left_out_count == 0 || selection == Selection::kAnything,
      origin, ": holds no tensors, only ", walker.root_text(),
      ". Save the model's state_dict() instead.");
  if (selection == Selection::kWeights)
    if (const auto prefix = strip_shared_prefix(result.tensors); !prefix.empty())
      result.notes.push_back(concat("removed ", in_quotes(prefix), " from the names"));
  if (walker.left_out_count > 0)
    result.notes.push_back(concat("left out ", walker.left_out_count,
                                  " values that are no tensors: ", listed(walker.left_out)));
  std::sort(result.tensors.begin(), result.tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (std::size_t i = 1; i < result.tensors.size(); ++i)
    HYDRAMIX_CHECK(result.tensors[i - 1].name != result.tensors[i].name, origin, ": tensor ",
                   in_quotes(result.tensors[i].name),
                   " occurs twice; names must be unique. Rename one of them.");
  return result;
}

}  // namespace hydramix::torch_archive
