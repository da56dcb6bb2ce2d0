// SPDX-License-Identifier: Apache-2.0
// The subcommands: one function per file of this folder, and their list in the order of help.
#pragma once

#include <vector>

#include "cli/command.h"

namespace hydramix {

Command bench_command();
Command bench_serve_command();
Command check_command();
Command classify_command();
Command convert_command();
Command curves_command();
Command demo_command();
Command embed_command();
Command evaluate_command();
Command export_hf_command();
Command export_onnx_command();
Command fill_mask_command();
Command finetune_command();
Command glue_command();
Command import_hf_command();
Command info_command();
Command make_data_command();
Command matrix_command();
Command predict_command();
Command pretrain_command();
Command serve_command();
Command view_command();
Command show_augmentations_command();
Command reproduce_command();
Command tokenize_command();
Command tokenizer_command();
Command train_images_command();
Command train_recall_command();
Command verify_command();

std::vector<Command> all_commands();

}  // namespace hydramix
