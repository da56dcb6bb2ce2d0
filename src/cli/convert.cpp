// SPDX-License-Identifier: Apache-2.0
// hydramix convert: weights from one file format to another. Unless an option changes numbers, the
// bytes of every tensor are copied unchanged, including the payloads of NaNs. What belongs to the
// weights goes with them: metadata, config and tokenizer, and the other files of a folder.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "base/quotes.h"
#include "cli/commands.h"
#include "cli/convert_input.h"
#include "cli/output_path.h"
#include "hydramix/error.h"
#include "hydramix/model_folder.h"
#include "hydramix/weights.h"
#include "io/tensor_views.h"
#include "io/torch_archive.h"
#include "models/import_weights.h"
#include "models/model_config.h"

namespace hydramix {
namespace {

using safetensors::TensorView;

struct ConvertOptions {
  std::string in, out;
  std::string to = "auto";
  std::string which = "last";
  std::string dtype = "keep";
  std::string reference_toeplitz = "keep";
  bool everything = false;
  bool list = false;
  bool overwrite = false;
  BertOptions model;
  std::function<void(ConvertOptions&)> choose;  // applies the command line to other options

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("in", self.in, Positional{}, Required{},
      "a .safetensors or .pt file, or the folder of a model or of a run");
    v("out", self.out, Positional{}, "file or folder to write");
    v("to", self.to, Choices{"auto", "safetensors", "pt", "folder"},
      "format to write; auto: by the extension of the output, without one a model folder");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("dtype", self.dtype, Choices{"keep", "float32", "bfloat16", "float16"},
      "type of all floating-point tensors");
    v("reference_toeplitz", self.reference_toeplitz, Choices{"keep", "to", "from"},
      "convert the weights of Toeplitz mixers from or to those of the published code, which are "
      "shifted by one lag");
    v("everything", self.everything,
      "take every tensor of a PyTorch file under its full path, not only the model's weights");
    v("list", self.list, "print name, type and shape of every tensor");
    v("overwrite", self.overwrite, "write into a folder that is not empty, and replace its model");
    v("model", self.model,
      "for a model folder: what neither the input's config nor the weights tell; what contradicts "
      "the weights is an error");
  }
};

bool gives_model_options(const ConvertOptions& o) {
  return to_json(o.model) != to_json(BertOptions{});
}

std::string format_of(const ConvertOptions& o) {
  if (o.to != "auto") return o.to;
  const std::filesystem::path out(o.out);
  const auto extension = out.extension().string();
  if (extension == ".pt" || extension == ".pth" || extension == ".bin") return "pt";
  if (extension == ".safetensors") return "safetensors";
  HYDRAMIX_CHECK_USAGE(extension.empty() || std::filesystem::is_directory(out), "convert: ", o.out,
                       " ends in '", extension,
                       "', which names no format; expected .safetensors, .pt, .pth, .bin or a "
                       "folder. Or say which with --to.");
  return "folder";
}

// Refuses what cannot be done, before any work.
void check_request(const ConvertOptions& o, const std::string& format) {
  auto inputs = model_files(o.in);
  inputs.push_back(o.in);
  check_not_an_input("convert: OUT", o.out, inputs);
  HYDRAMIX_CHECK_USAGE(format == "folder" || !gives_model_options(o), "convert: options of the ",
                       "model were given, but ", o.out,
                       " is a file of weights, which has none. Leave them out, or write a folder.");
  if (format != "folder") return;
  HYDRAMIX_CHECK_USAGE(o.dtype == "keep" || o.dtype == "float32", "convert: --dtype ", o.dtype,
                       " does not go with a model folder, whose weights are float32. Leave it out, "
                       "or write a .safetensors or .pt file.");
  check_new_folder("convert", o.out, o.overwrite);
}

torch::ScalarType scalar_type(const std::string& name) {
  if (name == "bfloat16") return torch::kBFloat16;
  return name == "float16" ? torch::kFloat16 : torch::kFloat32;
}

// The tensors as they will be written. `keep` owns the converted ones.
std::vector<TensorView> converted(const StoredWeights& checkpoint, const ConvertOptions& o,
                                  std::vector<torch::Tensor>& keep) {
  const bool turns = o.reference_toeplitz != "keep";
  int64_t turned = 0;
  std::vector<TensorView> views;
  for (const auto& view : checkpoint.tensors) {
    const bool turn = turns && is_rotated(view.name, {.reference_toeplitz = true});
    if (!turn && o.dtype == "keep") {
      views.push_back(view);
      continue;
    }
    auto tensor = to_tensor(checkpoint.path, view, checkpoint.storage);
    if (turn)
      tensor = o.reference_toeplitz == "to" ? to_reference_toeplitz_weights(tensor)
                                            : from_reference_toeplitz_weights(tensor);
    turned += turn;
    if (o.dtype != "keep" && tensor.is_floating_point()) tensor = tensor.to(scalar_type(o.dtype));
    views.push_back(to_view(o.out, view.name, tensor, keep));
  }
  HYDRAMIX_CHECK(!turns || turned > 0, checkpoint.path.string(), ": has no weights of a data-",
                 "independent Toeplitz mixer, expected at least one for --reference-toeplitz ",
                 o.reference_toeplitz, ". Leave that option out.");
  return views;
}

std::string shape_of(const TensorView& view) {
  std::string text = "[";
  for (const int64_t extent : view.shape) text += concat(text.size() > 1 ? ", " : "", extent);
  return text + "]";
}

double megabytes(const std::vector<TensorView>& views) {
  double bytes = 0;
  for (const auto& view : views) bytes += static_cast<double>(view.data.size());
  return bytes / 1e6;
}

void print_table(const std::vector<TensorView>& views) {
  std::size_t widest = 0;
  for (const auto& view : views) widest = std::max(widest, escaped(view.name).size());
  for (const auto& view : views) {
    auto name = escaped(view.name);
    name.resize(std::max(widest, name.size()), ' ');
    const std::string dtype(safetensors::dtype_name(view.dtype));
    std::fputs(formatted("%s  %-7s  %s\n", name, dtype, shape_of(view)).c_str(), stdout);
  }
  std::fputs(formatted("%lld tensors, %.1f MB\n", views.size(), megabytes(views)).c_str(), stdout);
}

void print_notes(const StoredWeights& checkpoint, const std::vector<std::string>& notes) {
  for (const auto& note : notes)
    std::fprintf(stderr, "%s: %s\n", checkpoint.path.c_str(), note.c_str());
}

// The options `from` with those of the command line.
BertOptions chosen(const ConvertOptions& o, const BertOptions& from) {
  ConvertOptions other;
  other.model = from;
  o.choose(other);
  return other.model;
}

// Throws if the command line contradicts the weights.
void check_choices(const ConvertOptions& o, const BertOptions& fitted) {
  const auto requested = to_json(chosen(o, fitted)).flatten(), found = to_json(fitted).flatten();
  for (const auto& [key, value] : found.items()) {
    if (requested.contains(key) && requested[key] == value) continue;
    std::string name = "model" + key;
    std::replace(name.begin(), name.end(), '/', '.');
    throw UsageError(concat("convert: ", name, " was given as ",
                            requested.contains(key) ? requested[key].dump() : "another value",
                            ", but the weights make it ", value.dump(), ". Leave it out."));
  }
}

void write_folder(const ConvertInput& input, const std::vector<TensorView>& views,
                  const ConvertOptions& o) {
  const auto& checkpoint = input.weights;
  std::map<std::string, torch::Tensor> weights;
  for (const auto& view : views)
    weights.emplace(view.name, to_tensor(checkpoint.path, view, checkpoint.storage));
  const Tokenizer* tokenizer = input.tokenizer ? &*input.tokenizer : nullptr;
  std::vector<std::string> notes;
  try {
    if (const auto options = encoder_options_in(input.config, checkpoint.path.string())) {
      save_parts(o.out, {std::move(weights), input.config, chosen(o, *options), tokenizer},
                 checkpoint.path.string());
    } else {
      const auto model = import_weights(std::move(weights), o.model, notes);
      check_choices(o, model->options());
      save_model(o.out, model, tokenizer);
    }
  } catch (const UsageError&) {
    throw;
  } catch (const Error& error) {
    const std::string what = error.what();
    const std::string origin = checkpoint.path.string() + ": ";
    throw Error(concat(what.starts_with(origin) ? "" : origin, what,
                       " What the weights cannot tell is given by --set model.block.mixer=NAME and "
                       "the like, or by --config with a file that has the section 'model' alone."));
  }
  print_notes(checkpoint, notes);
  const auto tokenizer_file = std::filesystem::path(o.out) / "tokenizer.json";
  if (tokenizer != nullptr)
    write_file(tokenizer_file, input.tokenizer_text);
  else
    std::filesystem::remove(tokenizer_file);  // that of an earlier model
  copy_other_files(input, o.out);
  if (!std::filesystem::exists(tokenizer_file))
    std::fprintf(stderr,
                 "%s: came without tokenizer.json; put the model's into %s, which commands that "
                 "read text need\n",
                 o.in.c_str(), o.out.c_str());
  // Throws unless the folder can be used.
  if (is_classifier(o.out))
    load_classifier(o.out);
  else
    load_model(o.out);
}

int convert(const ConvertOptions& o) {
  HYDRAMIX_CHECK_USAGE(o.list || !o.out.empty(),
                       "convert: name the file to write, or give --list to see what ", o.in,
                       " holds.");
  const auto format = o.out.empty() ? "" : format_of(o);
  if (!o.out.empty()) check_request(o, format);
  auto input = open_convert_input(
      o.in, o.which,
      o.everything ? torch_archive::Selection::kEverything : torch_archive::Selection::kWeights);
  print_notes(input.weights, input.weights.notes);
  const std::filesystem::path out = o.out;
  check_not_an_input("convert: OUT", format == "folder" ? out / "model.safetensors" : out,
                     {input.weights.path});
  std::vector<torch::Tensor> keep;
  const auto views = converted(input.weights, o, keep);
  if (o.list) print_table(views);
  if (o.out.empty()) return 0;
  if (format == "folder")
    write_folder(input, views, o);
  else if (format == "pt")
    torch_archive::write(o.out, views, file_metadata(input));
  else
    safetensors::write(o.out, views, file_metadata(input));
  std::printf("wrote %s: %zu tensors, %.1f MB\n", o.out.c_str(), views.size(), megabytes(views));
  return 0;
}

}  // namespace

Command convert_command() {
  return make_command<ConvertOptions>(
      "convert", "turn weights into another file format", convert,
      "Reads .safetensors files and files of torch.save (.pt, .pth, .bin), detected by their "
      "contents, and folders of models and runs. Writes either, bit for bit unless --dtype or "
      "--reference-toeplitz changes the numbers, or a model folder. Config and tokenizer go with "
      "the weights, in a file as metadata. Never executes code of a pickle.");
}

}  // namespace hydramix
