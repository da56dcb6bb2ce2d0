// SPDX-License-Identifier: Apache-2.0
#include "cli/own_metrics.h"

#include <cstdio>

#include "cli/metrics_table.h"
#include "data/row_reader.h"
#include "hydramix/model_folder.h"
#include "tasks/label_thresholds.h"
#include "tasks/metrics.h"
#include "tasks/own_data.h"

namespace hydramix {

OwnMetrics::OwnMetrics(const TextClassifier& classifier, const std::filesystem::path& folder,
                       LabelledFile file)
    : folder_(folder),
      file_(std::move(file)),
      several_(classifier.kind() == kind_name(LabelKind::kLabels)) {
  const auto columns = classifier.columns();
  if (file_.path.empty() || columns.text.empty() || columns.label.empty()) return;
  const auto rows = open_rows(file_.path, row_format(file_.path, file_.format));
  has_labels_ = rows->next() && rows->value(columns.label).has_value();
}

void OwnMetrics::add(const TextClassifier::Answer& answer) {
  if (!has_labels_) return;
  if (several_)
    values_.insert(values_.end(), answer.probabilities.begin(), answer.probabilities.end());
  else
    values_.push_back(answer.value);
}

void OwnMetrics::print() const {
  if (!has_labels_) return;
  const auto about = load_classifier_task(folder_);
  const OwnColumns columns{about.text, about.pair, about.label, about.separator};
  auto task = own_task(label_kind(about.kind), columns, about.labels);
  std::vector<double> actual;
  OwnReader rows(file_.path, file_.format, task, columns, /*needs_labels=*/true);
  for (Example row; rows.next(row);)
    actual.insert(actual.end(), row.targets.begin(), row.targets.end());
  nlohmann::ordered_json metrics;
  if (several_) {
    const auto found =
        label_scores({values_, task.labels.size()}, {actual, task.labels.size()}, about.thresholds);
    metrics = with_score(
        task, {{"micro_f1", found.micro_f1}, {"macro_f1", found.macro_f1}, {"exact", found.exact}});
  } else {
    if (task.kind == LabelKind::kPairs) task.metrics = {"pearson", "spearman"};
    metrics = scores(task, values_, actual);
  }
  std::fputs(metrics_table(metrics).c_str(), stderr);
}

}  // namespace hydramix
