// SPDX-License-Identifier: Apache-2.0
// hydramix matrix: the matrix of a mixer with random parameters, or those that a trained model
// applies to a text; as a picture or as data.
#include <cstdio>
#include <filesystem>

#include "base/formatted.h"
#include "base/quotes.h"
#include "base/spelling.h"
#include "cli/commands.h"
#include "cli/matrix_scale.h"
#include "cli/output_path.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "hydramix/tensor_file.h"
#include "models/layer_matrices.h"
#include "models/text_model.h"
#include "train/trained_model.h"
#include "view/npy.h"
#include "view/png.h"
#include "view/svg.h"

namespace hydramix {
namespace {

struct MatrixOptions {
  std::string mixer;
  bool all = false;
  std::string out;
  std::string model, which = "last", text;
  int64_t layer = 0, head = 0, tokens = 64;
  int64_t length = 64;
  int64_t heads = 1;
  int64_t headdim = 8;
  int64_t seed = 1;
  double scale = 0;
  int64_t qk_dim = 4;
  int64_t d_state = 4;
  int64_t groups = 1;
  int64_t max_length = 0;
  // With these steps a state fades over about the length of the picture.
  double dt_min = 0.03, dt_max = 0.06;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, Positional{}, "which mixer (hydramix info mixers)");
    v("all", self.all, "draw every registered mixer on one page");
    v("out", self.out, Required{},
      "file to write: .svg with labels, .png of pixels alone, .npy or .safetensors");
    v("model", self.model,
      "draw the matrices of a trained model for --text: folder of a model, of a classifier, or of "
      "a run");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("text", self.text, "text whose tokens the model mixes");
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
    v("qk_dim", self.qk_dim, Range{1, 4096}, "width of a head's queries and keys");
    v("d_state", self.d_state, Range{1, 4096}, "state size N of a scan");
    v("groups", self.groups, Range{1, 256}, "groups of heads that share B and C");
    v("max_length", self.max_length, Range{0, 4096},
      "longest sequence of a data-independent mixer, which sets its scale; 0: the length");
    v("dt_min", self.dt_min, Range{1e-12, 1e12}, "smallest step dt of a scan at initialisation");
    v("dt_max", self.dt_max, Range{1e-12, 1e12}, "largest step dt of a scan at initialisation");
  }
};

// (branches H, L, L) in float64. Weights as initialised, parameters standard normal.
torch::Tensor random_matrix(const std::string& name, const MatrixOptions& o) {
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  MixerOptions mixer_options;
  mixer_options.qk_dim = o.qk_dim;
  mixer_options.d_state = o.d_state;
  mixer_options.groups = o.groups;
  mixer_options.max_length = o.max_length == 0 ? o.length : o.max_length;
  mixer_options.dt_min = o.dt_min;
  mixer_options.dt_max = o.dt_max;
  const auto mixer = make_mixer(name, {o.heads, o.headdim}, mixer_options);
  mixer->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  return mixer->materialize(torch::randn({1, o.length, mixer->params_width()}, torch::kFloat64),
                            o.length)[0];
}

void add_pictures(const std::string& name, const torch::Tensor& matrices, const MatrixOptions& o,
                  std::vector<MatrixPicture>& page) {
  const int64_t branches = matrices.size(0) / o.heads;
  for (int64_t m = 0; m < matrices.size(0); ++m) {
    MatrixPicture picture;
    picture.title = name;
    if (branches > 1) picture.title += concat(", matrix ", m / o.heads + 1);
    if (o.heads > 1) picture.title += concat(", head ", m % o.heads + 1);
    picture.subtitle = mixer_info(name).formula;
    const auto M = matrices[m].contiguous();
    picture.rows = M.size(0);
    picture.cols = M.size(1);
    picture.values.assign(M.data_ptr<double>(), M.data_ptr<double>() + M.numel());
    picture.scale = o.scale > 0 ? o.scale : usual_magnitude(M);
    page.push_back(std::move(picture));
  }
}

// ---- a trained model ----

struct ModelMatrix {
  int64_t layer, head;  // from 0
  torch::Tensor M;      // (L, L) float64
};

// The share of |M| off the diagonal: how much a head reads other places.
double share_of_others(const torch::Tensor& M) {
  const double all = M.abs().sum().item<double>();
  return all > 0 ? 1 - M.diagonal().abs().sum().item<double>() / all : 0;
}

std::vector<ModelMatrix> chosen(const std::vector<torch::Tensor>& layers, const MatrixOptions& o) {
  const auto count = static_cast<int64_t>(layers.size());
  HYDRAMIX_CHECK_USAGE(o.layer <= count, "matrix: --layer ", o.layer, ": the model has ", count,
                       " layers.");
  std::vector<ModelMatrix> matrices;
  for (int64_t layer = 0; layer < count; ++layer) {
    if (o.layer > 0 && layer != o.layer - 1) continue;
    const auto& heads = layers[static_cast<std::size_t>(layer)];
    HYDRAMIX_CHECK_USAGE(o.head <= heads.size(0), "matrix: --head ", o.head, ": layer ", layer + 1,
                         " has ", heads.size(0), " matrices.");
    int64_t best = 0;
    for (int64_t h = 0; h < heads.size(0); ++h) {
      if (o.head == 0 && o.layer > 0) matrices.push_back({layer, h, heads[h]});
      if (share_of_others(heads[h]) > share_of_others(heads[best])) best = h;
    }
    if (o.head > 0) matrices.push_back({layer, o.head - 1, heads[o.head - 1]});
    if (o.head == 0 && o.layer == 0) matrices.push_back({layer, best, heads[best]});
  }
  return matrices;
}

void save_model_matrices(const std::vector<ModelMatrix>& matrices,
                         const std::vector<std::string>& tokens, const MatrixOptions& o) {
  const auto extension = std::filesystem::path(o.out).extension().string();
  if (extension == ".npy") {
    std::vector<torch::Tensor> all;
    for (const auto& matrix : matrices) all.push_back(matrix.M);
    const auto M = torch::stack(all).contiguous();
    write_npy(o.out, M.sizes().vec(), std::span<const double>(M.data_ptr<double>(), M.numel()));
  } else if (extension == ".safetensors") {
    std::map<std::string, torch::Tensor> all;
    for (const auto& [layer, head, M] : matrices)
      all.emplace(concat("layer.", layer + 1, ".head.", head + 1), M.contiguous());
    save_tensors(o.out, all, {{"tokens", nlohmann::json(tokens).dump()}});
  } else {
    std::vector<MatrixPicture> page;
    for (const auto& [layer, head, M] : matrices) {
      MatrixPicture picture;
      picture.title = concat("layer ", layer + 1, ", head ", head + 1);
      picture.rows = picture.cols = M.size(0);
      const auto values = M.contiguous();
      picture.values.assign(values.data_ptr<double>(), values.data_ptr<double>() + M.numel());
      picture.scale = o.scale > 0 ? o.scale : usual_magnitude(M);
      picture.row_labels = picture.col_labels = tokens;
      page.push_back(std::move(picture));
    }
    if (extension == ".png")
      write_png(o.out, page, {});
    else
      write_svg(o.out, page, {.title = std::string(clipped(o.text, 120))});
  }
}

int model_matrices(const MatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE(!o.text.empty(), "matrix: --model needs --text, whose tokens it mixes.");
  check_not_an_input("--out", o.out, model_files(o.model));
  const auto model =
      open_text_model(o.model, o.which, Wanted::kAny, {.max_length = o.tokens}, o.tokens);
  const auto encode_one = [&](int64_t n) { return model->tokenizer().encode(o.text, n); };
  const auto encoding = encode_one(model->max_length());
  if (model->tokens_of(encoding, encode_one).cut)
    std::fprintf(stderr, "the text has %lld tokens; only the first %lld are drawn (--tokens)\n",
                 static_cast<long long>(std::ssize(encode_one(0).ids)),
                 static_cast<long long>(model->max_length()));
  std::vector<std::string> tokens;
  for (const auto id : encoding.ids) tokens.push_back(model->tokenizer().token(id));
  std::vector<torch::Tensor> layers;
  model->for_each_batch(std::span(&encoding, 1), [&](auto, const PackedBatch& batch) {
    layers = layer_matrices(model->module(), model->encoder_options(),
                            [&](const auto& observe) { model->hidden(batch, observe); });
  });
  const auto matrices = chosen(layers, o);
  save_model_matrices(matrices, tokens, o);
  std::string names;
  for (const auto& [layer, head, M] : matrices)
    names += concat(names.empty() ? "" : ", ", layer + 1, ".", head + 1);
  std::printf("wrote %s: %lld x %lld, layer.head %s\n", o.out.c_str(),
              static_cast<long long>(tokens.size()), static_cast<long long>(tokens.size()),
              names.c_str());
  return 0;
}

int matrix(const MatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE((o.all ? 1 : 0) + (o.mixer.empty() ? 0 : 1) + (o.model.empty() ? 0 : 1) == 1,
                       "matrix: name one mixer, or give --all, or --model and --text. Registered: ",
                       join(mixer_names()), ".");
  HYDRAMIX_CHECK_USAGE(!o.model.empty() || (o.text.empty() && o.layer == 0 && o.head == 0),
                       "matrix: --text, --layer and --head are for a trained model. Give --model.");
  const auto extension = std::filesystem::path(o.out).extension().string();
  const bool picture = extension == ".png" || extension == ".svg";
  HYDRAMIX_CHECK_USAGE(picture || extension == ".npy" || extension == ".safetensors",
                       "matrix: --out ", o.out, " ends in '", extension,
                       "'; expected .png, .svg, .npy or .safetensors.");
  if (!o.model.empty()) return model_matrices(o);
  HYDRAMIX_CHECK_USAGE(!(o.all && extension == ".npy"),
                       "matrix: .npy holds one array; for --all use .safetensors.");

  constexpr int64_t kMaxEntries = int64_t{1} << 27;  // 1 GiB of float64
  const auto names = o.all ? mixer_names() : std::vector<std::string>{o.mixer};
  const auto count = static_cast<int64_t>(names.size());
  HYDRAMIX_CHECK_USAGE(count * o.heads * o.length * o.length <= kMaxEntries,
                       "matrix: ", count * o.heads, " matrices of ", o.length, " x ", o.length,
                       " are more than ", kMaxEntries,
                       " entries. Use a smaller --length or fewer --heads.");
  std::map<std::string, torch::Tensor> matrices;
  for (const auto& name : names) matrices[name] = random_matrix(name, o);
  if (picture) {
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
      "matrix", "draw or save the matrix of a mixer, or of a trained model for a text", matrix,
      "Examples:\n"
      "  hydramix matrix hydra --out hydra.svg\n"
      "  hydramix matrix --model runs/tiny --text \"the map is green .\" --out map.svg\n"
      "Of a mixer alone the weights are as initialised and the parameters standard normal, both "
      "from --seed, so that equal commands give equal files. Of a trained model the page shows one "
      "head of each layer, with the tokens along both axes: row i holds the weights with which "
      "token i reads the others.");
}

}  // namespace hydramix
