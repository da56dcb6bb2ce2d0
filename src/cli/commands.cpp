// SPDX-License-Identifier: Apache-2.0
#include "cli/commands.h"

namespace hydramix {

std::vector<Command> all_commands() {
  return {
      demo_command(),         reproduce_command(),
      pretrain_command(),     evaluate_command(),
      finetune_command(),     glue_command(),
      predict_command(),      fill_mask_command(),
      embed_command(),        serve_command(),
      view_command(),         train_images_command(),
      classify_command(),     show_augmentations_command(),
      train_recall_command(), curves_command(),
      tokenize_command(),     tokenizer_command(),
      make_data_command(),    convert_command(),
      export_onnx_command(),  export_hf_command(),
      import_hf_command(),    verify_command(),
      info_command(),         matrix_command(),
      check_command(),        bench_command(),
      bench_serve_command(),
  };
}

}  // namespace hydramix
