// SPDX-License-Identifier: Apache-2.0
#include "reproduce/reproduce.h"

#include <algorithm>

#include "base/atomic_file.h"
#include "base/cores.h"
#include "base/formatted.h"
#include "base/json_reader.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "reproduce/recall_stages.h"
#include "reproduce/report.h"
#include "train/run_folder.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

// OUT/reproduce.json says which scale the folder holds.
void check_scale_of_folder(const fs::path& out, const std::string& scale) {
  const auto path = out / "reproduce.json";
  if (!fs::exists(path)) return;
  const auto kept = read_json(path, kResultFile);
  const auto other = kept.value("scale", std::string());
  HYDRAMIX_CHECK_USAGE(other == scale, out.string(), ": holds runs of scale '", other,
                       "', and this call is of scale '", scale, "'. Choose another --out.");
}

std::vector<const PaperTable*> chosen_tables(const std::vector<std::string>& names) {
  std::vector<const PaperTable*> tables;
  for (const auto& name : names) {
    if (name == kRecallTable) continue;
    const auto* table = &paper_table(name);
    HYDRAMIX_CHECK_USAGE(std::find(tables.begin(), tables.end(), table) == tables.end(),
                         "reproduce: ", table->name, " is named twice.");
    tables.push_back(table);
  }
  if (names.empty())
    for (const auto& table : paper_tables()) tables.push_back(&table);
  return tables;
}

bool has_data(const DataFolders& data, const PaperTable& table) {
  return table.of_images() ? !data.images.empty() : !data.text.train.empty();
}

constexpr const char* kTextNeeded =
    "For text give --data DIR with DIR/train and DIR/validation, which hydramix tokenize makes, "
    "and DIR/vocab.txt.";
constexpr const char* kImagesNeeded =
    "For images give --data DIR with DIR/train and DIR/val, a folder for each class in both, or "
    "the files of CIFAR-10 or MNIST.";

// Cores, or GPUs, are shared evenly.
struct Slots {
  int64_t count = 1, threads = 1, gpus = 0;
};

Slots choose_slots(const ReproduceOptions& options, Scale scale) {
  Slots slots;
  slots.gpus = torch::cuda::is_available() ? static_cast<int64_t>(torch::cuda::device_count()) : 0;
  const int64_t cores = core_count();
  // Models this small have little work for a second thread.
  const int64_t usual = slots.gpus > 0 ? slots.gpus * (scale == Scale::kAsPublished ? 1 : 4)
                        : scale == Scale::kTiny ? cores
                                                : 1;
  slots.count = options.jobs > 0 ? options.jobs : usual;
  slots.threads = std::max<int64_t>(1, cores / slots.count);
  return slots;
}

}  // namespace

ReproducePlan plan_reproduction(const ReproduceOptions& options) {
  ReproducePlan plan;
  plan.scale = scale_of(options.scale);
  plan.tables = chosen_tables(options.tables);
  const auto recall = std::count(options.tables.begin(), options.tables.end(), kRecallTable);
  HYDRAMIX_CHECK_USAGE(recall <= 1, "reproduce: ", kRecallTable, " is named twice.");
  plan.recall = options.tables.empty() || recall > 0;
  plan.seeds = options.seeds;
  plan.out = options.out;
  HYDRAMIX_CHECK_USAGE(!fs::exists(plan.out) || fs::is_directory(plan.out), "--out: ", options.out,
                       " is no folder.");
  check_scale_of_folder(plan.out, options.scale);
  if (plan.scale == Scale::kTiny) {
    HYDRAMIX_CHECK_USAGE(options.data.empty(), "--data: got ", join(options.data),
                         ", but the scale tiny uses built-in data. Give --scale small, or leave "
                         "--data out.");
    return plan;
  }
  plan.data = find_data_folders(options.data);
  if (options.tables.empty())  // those that the data allows
    std::erase_if(plan.tables,
                  [&](const PaperTable* table) { return !has_data(plan.data, *table); });
  HYDRAMIX_CHECK_USAGE(!plan.tables.empty() || !options.tables.empty(), "reproduce: the scale ",
                       options.scale, " needs data. ", kTextNeeded, " ", kImagesNeeded);
  for (const auto* table : plan.tables)
    HYDRAMIX_CHECK_USAGE(has_data(plan.data, *table), "reproduce: ", table->name, " at scale ",
                         options.scale, " needs ", table->of_images() ? "images. " : "text. ",
                         table->of_images() ? kImagesNeeded : kTextNeeded);
  const auto any = [&](auto&& holds) {
    return std::any_of(plan.tables.begin(), plan.tables.end(), holds);
  };
  if (any([](const PaperTable* table) { return !table->of_images(); })) open_text(plan.data);
  if (any([](const PaperTable* table) { return table->has_column("glue"); })) open_glue(plan.data);
  if (any([](const PaperTable* table) { return table->of_images(); })) open_images(plan.data);
  return plan;
}

ReproduceOutcome reproduce(const ReproduceOptions& options, const fs::path& program,
                           const std::string& version, const RunnerEvents& events) {
  auto plan = plan_reproduction(options);
  const RunFolder lock(plan.out);
  check_scale_of_folder(plan.out, options.scale);
  write_file(plan.out / "reproduce.json", Json{{"scale", options.scale}}.dump(2) + "\n");
  if (plan.scale == Scale::kTiny && !plan.tables.empty())
    plan.data = built_in_data((plan.out / "data" / "glue").string());
  const auto slots = choose_slots(options, plan.scale);
  const ChildSettings settings{program, version, slots.threads, slots.gpus};
  auto stages = make_stages(plan, settings);
  for (auto& stage : recall_stages(plan, settings)) stages.push_back(std::move(stage));
  check_kept_results(stages);
  const bool shows_glue = std::any_of(plan.tables.begin(), plan.tables.end(),
                                      [](const auto* table) { return table->has_column("glue"); });
  if (events.message && plan.data.glue_tasks.empty() && shows_glue)
    events.message("no data of GLUE: its columns stay empty");
  if (events.message && plan.data.images_held_out > 0)
    events.message(formatted("%s: holds one split; %.0f %% of its images are held out",
                             plan.data.images, 100 * plan.data.images_held_out));
  ReproduceOutcome outcome;
  outcome.runs = run_stages(stages, slots.count, events);
  outcome.report = write_reports(plan, version);
  return outcome;
}

}  // namespace hydramix
