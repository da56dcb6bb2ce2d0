// SPDX-License-Identifier: Apache-2.0
// hydramix matrix: the materialised matrix of a mixer with random parameters, as a picture or as
// data.
#include <cstdio>
#include <filesystem>

#include "base/spelling.h"
#include "cli/commands.h"
#include "hydramix/error.h"
#include "hydramix/registry.h"
#include "hydramix/tensor_file.h"
#include "view/npy.h"
#include "view/png.h"
#include "view/svg.h"

namespace hydramix {
namespace {

struct MatrixOptions {
  std::string mixer;
  bool all = false;
  std::string out;
  int64_t length = 64;
  int64_t heads = 1;
  int64_t headdim = 8;
  int64_t seed = 1;
  MixerOptions options = {.qk_dim = 4, .d_state = 8};

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("mixer", self.mixer, Positional{}, "which mixer (hydramix info mixers)");
    v("all", self.all, "draw every registered mixer on one page");
    v("out", self.out, Required{}, "file to write: .png, .svg, .npy or .safetensors");
    v("length", self.length, Range{1, 4096}, "length L of the sequence");
    v("heads", self.heads, Range{1, 256}, "number of heads; each is a matrix");
    v("headdim", self.headdim, Range{1, 4096}, "channels of a head");
    v("seed", self.seed, Range{0, 1LL << 53}, "seed of the random weights and parameters");
    v("options", self.options, "what the mixer itself can be told");
  }
};

// (branches H, L, L) in float64. Weights as initialised, parameters standard normal.
torch::Tensor random_matrix(const std::string& name, const MatrixOptions& o) {
  torch::manual_seed(static_cast<uint64_t>(o.seed));
  MixerOptions mixer_options = o.options;
  mixer_options.max_length = std::max(mixer_options.max_length, o.length);
  if (!mixer_info(name).extendable) mixer_options.max_length = o.length;
  const auto mixer = make_mixer(name, {o.heads, o.headdim}, mixer_options);
  mixer->to(torch::kFloat64);
  torch::NoGradGuard no_grad;
  return mixer->materialize(torch::randn({1, o.length, mixer->params_width()}, torch::kFloat64),
                            o.length)[0];
}

void add_pictures(const std::string& name, const torch::Tensor& M, int64_t heads,
                  std::vector<MatrixPicture>& page) {
  const int64_t branches = M.size(0) / heads;
  for (int64_t m = 0; m < M.size(0); ++m) {
    std::string title = name;
    if (branches > 1) title += concat(", matrix ", m / heads + 1);
    if (heads > 1) title += concat(", head ", m % heads + 1);
    const auto values = M[m].contiguous();
    page.push_back({title,
                    mixer_info(name).formula,
                    M.size(1),
                    M.size(2),
                    {values.data_ptr<double>(), values.data_ptr<double>() + values.numel()}});
  }
}

int matrix(const MatrixOptions& o) {
  HYDRAMIX_CHECK_USAGE(o.all != !o.mixer.empty(),
                       "matrix: name one mixer or give --all. Registered: ", join(mixer_names()),
                       ".");
  const auto extension = std::filesystem::path(o.out).extension().string();
  const bool picture = extension == ".png" || extension == ".svg";
  HYDRAMIX_CHECK_USAGE(picture || extension == ".npy" || extension == ".safetensors",
                       "matrix: --out ", o.out, " ends in '", extension,
                       "'; expected .png, .svg, .npy or .safetensors.");
  HYDRAMIX_CHECK_USAGE(!(o.all && extension == ".npy"),
                       "matrix: .npy holds one array; for --all use .safetensors.");

  std::map<std::string, torch::Tensor> matrices;
  for (const auto& name : o.all ? mixer_names() : std::vector<std::string>{o.mixer})
    matrices[name] = random_matrix(name, o);
  if (picture) {
    std::vector<MatrixPicture> page;
    for (const auto& [name, M] : matrices) add_pictures(name, M, o.heads, page);
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
      "matrix", "draw or save the matrix of a mixer", matrix,
      "The weights are as initialised and the parameters standard normal, both from "
      "--seed, so that equal commands give equal files.");
}

}  // namespace hydramix
