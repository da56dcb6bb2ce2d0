// SPDX-License-Identifier: Apache-2.0
// hydramix matrix: the matrix of a mixer with random parameters, as a picture or as data. Those of
// a trained model are in model_matrices.cpp.
#include <cstdio>
#include <filesystem>

#include "base/spelling.h"
#include "cli/commands.h"
#include "cli/matrix_ranks.h"
#include "cli/model_matrices.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "hydramix/tensor_file.h"
#include "models/matrix_picture.h"
#include "view/npy.h"
#include "view/png.h"
#include "view/svg.h"

namespace hydramix {
namespace {

// Leaves max_length out of the fields that it passes on to `to`: here the length sets it.
template <class Visitor>
struct AllButMaxLength {
  Visitor& to;

  template <class T, class... Notes>
  void operator()(std::string_view name, T& value, const Notes&... notes) {
    if (name != "max_length") to(name, value, notes...);
  }
};

// Small, and with steps at which a state fades over about the length of the picture.
MixerOptions options_for_pictures() {
  return {.qk_dim = 4, .d_state = 4, .dt_min = 0.03, .dt_max = 0.06};
}

struct MatrixOptions {
  std::string mixer;
  bool all = false, ranks = false;
  std::string out;
  std::string model, which = "last", text, image;
  int64_t layer = 0, head = 0, tokens = 64;
  int64_t length = 64;
  int64_t heads = 1;
  int64_t headdim = 8;
  int64_t seed = 1;
  double scale = 0;
  int64_t max_length = 0;
  MixerOptions mixer_options = options_for_pictures();

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, Positional{}, "which mixer (hydramix info mixers)");
    v("all", self.all, "draw every registered mixer on one page");
    v("ranks", self.ranks,
      "print the ranks of the blocks off the diagonal; with --out, also draw them as .svg");
    v("out", self.out,
      "file to write: .svg with labels, .png of pixels alone, .npy or .safetensors; with --all "
      "also "
      "FOLDER/, which gets one .svg per mixer");
    v("model", self.model,
      "draw the matrices of a trained model for --text or --image: folder of a model, of a "
      "classifier, or of a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("text", self.text, "text whose tokens the model mixes");
    v("image", self.image, "JPEG or PNG file whose patches a model of images mixes");
    v("layer", self.layer, Range{0, 4096}, "draw all heads of this layer of the model, from 1");
    v("head", self.head, Range{0, 4096},
      "draw this head, from 1; by default the one of each layer that reads other places most");
    v("tokens", self.tokens, Range{3, 512},
      "tokens of the text with [CLS] and [SEP]; the rest is cut off");
    v("length", self.length, Range{1, 4096}, "length L of the sequence");
    v("heads", self.heads, Range{1, 256}, "number of heads; each is a matrix");
    v("headdim", self.headdim, Range{1, 4096}, "channels of a head");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of the random weights and parameters");
    v("scale", self.scale, Range{0.0, 1e300},
      "magnitude of the end colours; 0: the 99th percentile of the entries off the diagonal");
    v("max_length", self.max_length, Range{0, 4096},
      "longest sequence of a data-independent mixer, which sets its scale; 0: the length");
    AllButMaxLength<Visitor> others{v};
    MixerOptions::fields(self.mixer_options, others);
  }
};

// (branches H, L, L) in float64. Weights as initialised, parameters standard normal.
torch::Tensor random_matrix(const std::string& name, const MatrixOptions& o) {
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  MixerOptions mixer_options = o.mixer_options;
  mixer_options.max_length = o.max_length == 0 ? o.length : o.max_length;
  const auto mixer = make_mixer(name, {o.heads, o.headdim}, mixer_options);
  mixer->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  return mixer->materialize(torch::randn({1, o.length, mixer->params_width()}, torch::kFloat64),
                            o.length)[0];
}

// The title of matrix m of a mixer that has `count` = branches * heads of them.
std::string matrix_title(const std::string& name, int64_t m, int64_t count, int64_t heads) {
  std::string title = name;
  if (count > heads) title += concat(", matrix ", m / heads + 1);
  if (heads > 1) title += concat(", head ", m % heads + 1);
  return title;
}

void add_pictures(const std::string& name, const torch::Tensor& matrices, const MatrixOptions& o,
                  std::vector<MatrixPicture>& page) {
  for (int64_t m = 0; m < matrices.size(0); ++m) {
    auto picture =
        matrix_picture(matrix_title(name, m, matrices.size(0), o.heads), matrices[m], o.scale);
    picture.subtitle = mixer_info(name).formula;
    page.push_back(std::move(picture));
  }
}

int print_matrix_ranks(const std::map<std::string, torch::Tensor>& matrices,
                       const MatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE(o.length >= 2, "matrix: --ranks needs a --length of at least 2; got ",
                       o.length, ".");
  RanksByTitle ranks;
  for (const auto& [name, M] : matrices)
    for (int64_t m = 0; m < M.size(0); ++m)
      ranks[matrix_title(name, m, M.size(0), o.heads)] = block_ranks(M[m]);
  std::printf("%s", ranks_table(ranks).c_str());
  if (o.out.empty()) return 0;
  write_ranks_chart(o.out, ranks);
  std::printf("wrote %s\n", o.out.c_str());
  return 0;
}

int matrix(const MatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE((o.all ? 1 : 0) + (o.mixer.empty() ? 0 : 1) + (o.model.empty() ? 0 : 1) == 1,
                       "matrix: name one mixer, or give --all, or --model with --text or --image. "
                       "Registered: ",
                       join(mixer_names()), ".");
  HYDRAMIX_CHECK_USAGE(
      !o.model.empty() || (o.text.empty() && o.image.empty() && o.layer == 0 && o.head == 0),
      "matrix: --text, --image, --layer and --head are for a trained model. Give "
      "--model.");
  HYDRAMIX_CHECK_USAGE(
      !o.ranks || o.model.empty(),
      "matrix: --ranks is for mixers, not for a trained model. Leave out --model.");
  HYDRAMIX_CHECK_USAGE(o.ranks || !o.out.empty(),
                       "matrix: --out is missing: a file to write, .svg, .png, .npy or "
                       ".safetensors.");
  const auto extension = std::filesystem::path(o.out).extension().string();
  const bool picture = extension == ".png" || extension == ".svg";
  const bool folder = o.all && !o.ranks && o.out.ends_with('/');
  HYDRAMIX_CHECK_USAGE(!o.ranks || o.out.empty() || extension == ".svg", "matrix: --out ", o.out,
                       " ends in '", extension, "'; ranks are drawn as .svg.");
  HYDRAMIX_CHECK_USAGE(
      o.ranks || folder || picture || extension == ".npy" || extension == ".safetensors",
      "matrix: --out ", o.out, " ends in '", extension,
      "'; expected .png, .svg, .npy or .safetensors.");
  if (!o.model.empty())
    return save_model_matrices({.out = o.out,
                                .model = o.model,
                                .which = o.which,
                                .text = o.text,
                                .image = o.image,
                                .layer = o.layer,
                                .head = o.head,
                                .tokens = o.tokens,
                                .scale = o.scale});
  HYDRAMIX_CHECK_USAGE(!(o.all && extension == ".npy"),
                       "matrix: .npy holds one array; for --all use .safetensors.");

  constexpr int64_t kMaxEntries = int64_t{1} << 27;  // 1 GiB of float64
  const auto names = o.all ? matrix_mixer_names() : std::vector<std::string>{o.mixer};
  const auto count = static_cast<int64_t>(names.size());
  HYDRAMIX_CHECK_USAGE(count * o.heads * o.length * o.length <= kMaxEntries,
                       "matrix: ", count * o.heads, " matrices of ", o.length, " x ", o.length,
                       " are more than ", kMaxEntries,
                       " entries. Use a smaller --length or fewer --heads.");
  std::map<std::string, torch::Tensor> matrices;
  for (const auto& name : names) matrices[name] = random_matrix(name, o);
  if (o.ranks) return print_matrix_ranks(matrices, o);
  if (folder) {
    for (const auto& [name, M] : matrices) {
      std::vector<MatrixPicture> page;
      add_pictures(name, M, o, page);
      write_svg(o.out + name + ".svg", page, {});
    }
  } else if (picture) {
    std::vector<MatrixPicture> page;
    for (const auto& [name, M] : matrices) add_pictures(name, M, o, page);
    const PageOptions options{.title = o.all ? "Every sequence mixer is a matrix" : ""};
    extension == ".png" ? write_png(o.out, page, options) : write_svg(o.out, page, options);
  } else if (extension == ".npy") {
    const auto M = matrices.begin()->second.contiguous();
    write_npy(o.out, M.sizes().vec(), std::span<const double>(M.data_ptr<double>(), M.numel()));
  } else {
    save_tensors(o.out, matrices,
                 {{"seed", std::to_string(o.seed)}, {"length", std::to_string(o.length)}});
  }
  std::printf("wrote %s\n", o.out.c_str());
  return 0;
}

}  // namespace

Command matrix_command() {
  return make_command<MatrixOptions>(
      "matrix", "draw or save the matrix of a mixer, or of a trained model for a text or image",
      matrix,
      "Examples:\n"
      "  hydramix matrix hydra --out hydra.svg\n"
      "  hydramix matrix --ranks --all --out ranks.svg\n"
      "  hydramix matrix --ranks bidirectional --core s6 --combine add\n"
      "  hydramix matrix --model runs/tiny --text \"the map is green .\" --out map.svg\n"
      "  hydramix matrix --model runs/images/tiny --image photo.jpg --out photo.svg\n"
      "Of a mixer alone the weights are as initialised and the parameters standard normal, both "
      "from --seed, so that equal commands give equal files. Of a trained model the page shows one "
      "head of each layer, with the tokens or patches along both axes: row i holds the weights "
      "with which token i reads the others.");
}

}  // namespace hydramix
