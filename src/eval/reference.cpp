// SPDX-License-Identifier: Apache-2.0
#include "eval/reference.h"

#include <algorithm>
#include <functional>
#include <map>
#include <regex>

#include "base/json_reader.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "hydramix/error.h"

namespace hydramix {
namespace {

using JsonValue = nlohmann::json;
using Setters = std::map<std::string, std::function<void(const JsonValue&)>>;

double number(const JsonValue& value) {
  if (value == "inf") return kInfinity;
  if (value == "-inf") return -kInfinity;
  if (!value.is_number()) throw JsonValue::other_error::create(501, "not a number", nullptr);
  return value.get<double>();
}

// A value for a message. Nested values are not shown, because a file may nest them arbitrarily
// deep.
std::string shown(const JsonValue& value) {
  return value.is_structured() ? value.type_name() : escaped(value.dump());
}

// nlohmann silently truncates 16.9 to an integer.
void integer(const JsonValue& value, int64_t& target) {
  if (!value.is_number_integer() ||
      (value.is_number_unsigned() && value.get<uint64_t>() > INT64_MAX))
    throw JsonValue::other_error::create(501, "not an integer", nullptr);
  value.get_to(target);
}

// Calls the setter of every argument; unknown names and wrong types are errors.
void apply(const JsonValue& arguments, const Setters& setters, const std::string& origin) {
  HYDRAMIX_CHECK(arguments.is_object(), origin,
                 ": constructor arguments must be a JSON object; got ", arguments.type_name(), ".");
  std::vector<std::string> known;
  for (const auto& [name, setter] : setters) known.push_back(name);
  for (const auto& [name, value] : arguments.items()) {
    const auto setter = setters.find(name);
    HYDRAMIX_CHECK(setter != setters.end(), origin, ": unknown constructor argument ",
                   in_quotes(name), ".", did_you_mean(clipped(name, 64), known),
                   " Known: ", join(known), ".");
    try {
      setter->second(value);
    } catch (const JsonValue::exception&) {
      throw Error(concat(origin, ": constructor argument '", name,
                         "' has an unusable value: ", shown(value), "."));
    }
  }
}

// Arguments of both published blocks. Arguments that only choose an initialisation or a kernel are
// ignored.
Setters block_setters(BlockOptions& o, const std::string& origin) {
  Setters s;
  for (const char* name :
       {"conv_init", "chunk_size", "use_mem_eff_path", "layer_idx", "device", "dtype"})
    s[name] = [](const JsonValue&) {};
  s["d_model"] = [&](const JsonValue& v) { integer(v, o.d_model); };
  s["d_conv"] = [&](const JsonValue& v) { integer(v, o.d_conv); };
  s["expand"] = [&](const JsonValue& v) { v.get_to(o.expand); };
  s["headdim"] = [&](const JsonValue& v) { integer(v, o.headdim); };
  s["bias"] = [&](const JsonValue& v) { v.get_to(o.bias); };
  s["conv_bias"] = [&](const JsonValue& v) { v.get_to(o.conv_bias); };
  s["activation"] = [origin](const JsonValue& v) {
    HYDRAMIX_CHECK(v == "swish" || v == "silu", origin, ": activation ", shown(v),
                   " is not one the published module runs with; it is \"swish\" or \"silu\".");
  };
  return s;
}

}  // namespace

nlohmann::json parse_arguments(const std::string& text, const std::string& origin) {
  constexpr std::size_t kLongest = 1 << 16;
  HYDRAMIX_CHECK(text.size() <= kLongest, origin, ": constructor arguments of ", text.size(),
                 " characters; at most ", kLongest, " are read.");
  const std::regex infinity("(-?)\\bInfinity\\b");
  return parse_json<JsonValue>(std::regex_replace(text, infinity, "\"$1inf\""),
                               origin + ": the text of constructor arguments");
}

BlockOptions reference_hydra(const JsonValue& arguments, const std::string& origin) {
  BlockOptions o;
  auto& m = o.mixer_options;
  auto s = block_setters(o, origin);
  s["d_state"] = [&](const JsonValue& v) { integer(v, m.d_state); };
  s["ngroups"] = [&](const JsonValue& v) { integer(v, m.groups); };
  s["learnable_init_states"] = [&](const JsonValue& v) { v.get_to(m.learn_initial_states); };
  s["dt_min"] = [&](const JsonValue& v) { v.get_to(m.dt_min); };
  s["dt_max"] = [&](const JsonValue& v) { v.get_to(m.dt_max); };
  s["dt_init_floor"] = [&](const JsonValue& v) { v.get_to(m.dt_init_floor); };
  s["dt_limit"] = [&](const JsonValue& v) {
    if (v.size() != 2) throw JsonValue::other_error::create(501, "not a pair", nullptr);
    m.dt_limit_low = number(v.at(0));
    m.dt_limit_high = number(v.at(1));
  };
  apply(arguments, s, origin);
  return o;
}

BlockOptions reference_matrix_mixer(const JsonValue& arguments, bool is_dft,
                                    const std::string& origin) {
  BlockOptions o;
  o.headdim = 128;
  std::string type;
  bool data_dependent = false;
  auto s = block_setters(o, origin);
  s["matrix_mixer_type"] = [&](const JsonValue& v) { v.get_to(type); };
  s["is_data_dependent"] = [&](const JsonValue& v) { v.get_to(data_dependent); };
  s["qk_dim"] = [&](const JsonValue& v) { integer(v, o.mixer_options.qk_dim); };
  s["max_seq_len"] = [&](const JsonValue& v) {
    if (!v.is_null()) integer(v, o.mixer_options.max_length);
  };
  apply(arguments, s, origin);
  const std::vector<std::string> types{"dense",    "toeplitz",  "vandermonde",   "cauchy",
                                       "low_rank", "attention", "quasiseparable"};
  HYDRAMIX_CHECK(!type.empty(), origin,
                 ": the constructor lacks matrix_mixer_type; expected one of ", join(types), ".");
  HYDRAMIX_CHECK(std::find(types.begin(), types.end(), type) != types.end(), origin,
                 ": unknown matrix_mixer_type ", in_quotes(type), ".",
                 did_you_mean(clipped(type, 64), types), " Known: ", join(types), ".");
  HYDRAMIX_CHECK(
      !(type == "dense" && data_dependent), origin,
      ": the published dense mixer is data-independent only; set is_data_dependent to false.");
  if (type == "dense")
    o.mixer = "dense";
  else if (type == "vandermonde" && !data_dependent)
    o.mixer = is_dft ? "vandermonde_dft" : "vandermonde_di";
  else
    o.mixer = type + (data_dependent ? "_dd" : "_di");
  return o;
}

BertOptions reference_bert(const JsonValue& arguments, bool is_dft, const std::string& origin) {
  BertOptions o;
  JsonValue mixer = JsonValue::object();
  Setters s;
  s["vocab"] = [&](const JsonValue& v) { integer(v, o.vocab); };
  s["type_vocab"] = [&](const JsonValue& v) { integer(v, o.type_vocab); };
  s["layers"] = [&](const JsonValue& v) { integer(v, o.layers); };
  int64_t hidden = 768;
  s["hidden"] = [&](const JsonValue& v) { integer(v, hidden); };
  s["mixer"] = [&](const JsonValue& v) { mixer = v; };
  apply(arguments, s, origin);
  HYDRAMIX_CHECK(mixer.is_object(), origin,
                 ": 'mixer' must be an object of the mixer's arguments.");
  HYDRAMIX_CHECK(mixer.value("d_model", JsonValue(hidden)) == hidden, origin,
                 ": the mixer's d_model, ", shown(mixer["d_model"]),
                 ", is not the model's hidden = ", hidden, ".");
  mixer["d_model"] = hidden;
  o.block = mixer.contains("matrix_mixer_type") ? reference_matrix_mixer(mixer, is_dft, origin)
                                                : reference_hydra(mixer, origin);
  return o;
}

}  // namespace hydramix
