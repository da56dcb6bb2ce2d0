// SPDX-License-Identifier: Apache-2.0
// hydramix export-onnx: a model as a file for ONNX Runtime and its like.
#include <cstdio>

#include "cli/commands.h"
#include "cli/output_path.h"
#include "hub/python_files.h"
#include "hydramix/error.h"
#include "hydramix/text_embedder.h"
#include "onnx/export.h"
#include "train/trained_model.h"

namespace hydramix {
namespace {

struct ExportOnnxOptions {
  std::string model, out;
  std::string which = "last";
  onnx::ExportOptions graph;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("model", self.model, Positional{}, Required{},
      "folder of a model, of a classifier, or of a run");
    v("out", self.out, Positional{}, Required{}, "file to write: OUT.onnx");
    v("which", self.which, Choices{"last", "best", "average"}, "which weights of a run");
    v("head", self.graph.head, Choices{"auto", "logits", "embedding"},
      "output: logits of the masked-language model or of the classifier; embedding: a vector for "
      "each text; auto: logits where the model has them");
    v("pooling", self.graph.pooling, Choices{"auto", "mean", "cls"},
      "pooling of embeddings; auto: as hydramix embed");
    v("normalize", self.graph.normalize, "scale every embedding to length 1");
  }
};

int export_onnx(const ExportOnnxOptions& options) {
  const std::filesystem::path out = options.out;
  HYDRAMIX_CHECK_USAGE(out.extension() == ".onnx", "export-onnx: OUT is ", options.out,
                       "; expected a name that ends in .onnx.");
  check_not_an_input("export-onnx: OUT", out, model_files(options.model));
  check_can_be_written(out);
  const auto model =
      open_text_model(options.model, options.which, Wanted::kAny, {}, kEmbeddedLength);
  const auto exported = onnx::export_model(
      out, *model, options.graph, options.model,
      {{"hydramix_version", HYDRAMIX_VERSION}, {"hydramix_commit", build_commit()}});
  std::printf("wrote %s: %s, %.1f MB\n", options.out.c_str(), exported.output.c_str(),
              static_cast<double>(exported.bytes) / 1e6);
  return 0;
}

}  // namespace

Command export_onnx_command() {
  return make_command<ExportOnnxOptions>(
      "export-onnx", "write a model as an ONNX graph", export_onnx,
      "Examples:\n"
      "  hydramix export-onnx runs/sst2 sst2.onnx\n"
      "  hydramix export-onnx runs/tiny vectors.onnx --head embedding --normalize\n"
      "Exports text models of the mixers hydra, semiseparable, add and attention. Inputs are "
      "input_ids, attention_mask and token_type_ids, for any batch and length; the model's "
      "tokenizer.json makes them of text.");
}

}  // namespace hydramix
