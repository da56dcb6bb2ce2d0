// SPDX-License-Identifier: Apache-2.0
// hydramix make-data: documents and tasks of the built-in language, and drawn images, in the file
// formats of real data.
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>

#include "base/atomic_file.h"
#include "base/formatted.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "data/gzip_file.h"
#include "hydramix/error.h"
#include "images/drawn_files.h"
#include "language/example_files.h"
#include "language/glue.h"
#include "language/language.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

struct MakeDataOptions {
  std::string action, out;
  int64_t documents = 20000, validation = 1000;
  LanguageOptions language;
  int64_t shards = 4;
  GlueSizes glue;
  int64_t side = 32;
  std::string format = "png";
  bool overwrite = false;

  template <class Self, class Visitor>
  static void fields(Self& self, Visitor& v) {
    v("action", self.action, Positional{}, Required{},
      Choices{"text", "c4", "glue", "examples", "images"}, "which files to make");
    v("out", self.out, "folder to write to; by default data/ and the action");
    v("documents", self.documents, Range{1, 1LL << 32}, "text, c4: documents for training");
    v("validation", self.validation, Range{1, 1LL << 32},
      "text, c4: documents for validation; images: images for validation");
    v("shards", self.shards, Range{1, 99999}, "c4: files that the training documents fill");
    v("train", self.glue.train, Range{1, 1LL << 24},
      "glue, examples: rows for training, of each task or file; images: images for training");
    v("dev", self.glue.dev, Range{1, 1LL << 24}, "glue: rows for development, of each set");
    v("test", self.glue.test, Range{1, 1LL << 24}, "glue: rows without labels, of each set");
    v("side", self.side, Range{16, 4096}, "images: height and width");
    v("format", self.format, Choices{"png", "jpeg", "cifar10"},
      "images: a folder per class with files of this kind, or CIFAR-10's binary files");
    v("overwrite", self.overwrite, "replace files of the same names");
    LanguageOptions::fields(self.language, v);
  }
};

// A file to write: its path, and a function that writes it and describes its contents.
struct Target {
  fs::path path;
  std::function<std::string(const fs::path&)> write;
};
using Targets = std::vector<Target>;

// One document per line, with an empty line between documents.
std::string write_text(const fs::path& path, const Language& language, Split split,
                       int64_t documents) {
  AtomicFile file(path);
  Progress progress(path.filename().string(), documents, "documents");
  int64_t words = 0;
  for (int64_t i = 0; i < documents; ++i) {
    const Document document = language.document(i, split);
    words += static_cast<int64_t>(document.words.size());
    file.write((i == 0 ? "" : "\n") + language.text(document) + "\n");
    progress.advance();
  }
  file.commit();
  return concat(documents, " documents, ", words, " words");
}

std::string write_kinds(const fs::path& path, const Language& language, int64_t documents) {
  AtomicFile file(path);
  for (int64_t i = 0; i < documents; ++i) {
    auto words = nlohmann::ordered_json::array(), kinds = words;
    for (const auto& word : language.document(i, Split::kValidation).words) {
      words.push_back(language.vocabulary()[static_cast<std::size_t>(word.id)]);
      kinds.push_back(kind_name(word.kind));
    }
    file.write(nlohmann::ordered_json{{"words", words}, {"kinds", kinds}}.dump() + "\n");
  }
  file.commit();
  return concat("kinds of the words of ", documents, " documents");
}

std::string write_vocabulary(const fs::path& path, const Language& language) {
  std::string tokens;
  for (const auto& token : language.vocabulary()) tokens += token + "\n";
  write_file(path, tokens);
  return concat(language.vocabulary().size(), " tokens");
}

// Seconds since 2019-04-18, when C4 was crawled.
std::string timestamp(int64_t seconds) {
  const auto time = static_cast<std::time_t>(1555545600 + seconds);
  std::tm utc{};
  gmtime_r(&time, &utc);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
  return text;
}

struct DocumentRange {
  Split split;
  int64_t begin, end;
};

std::string write_c4(const fs::path& path, const Language& language, const DocumentRange& range) {
  GzipFile file(path);
  Progress progress(path.filename().string(), range.end - range.begin, "documents");
  for (int64_t i = range.begin; i < range.end; ++i) {
    const auto text = language.text(language.document(i, range.split));
    const auto url = concat("https://language.example/",
                            range.split == Split::kTrain ? "train/" : "validation/", i);
    const nlohmann::ordered_json line = {{"text", text}, {"timestamp", timestamp(i)}, {"url", url}};
    file.write(line.dump() + "\n");
    progress.advance();
  }
  file.commit();
  return concat(range.end - range.begin, " documents");
}

Targets text_targets(const MakeDataOptions& o, const Language& language) {
  return {{"train.txt",
           [&](const fs::path& p) { return write_text(p, language, Split::kTrain, o.documents); }},
          {"valid.txt",
           [&](const fs::path& p) {
             return write_text(p, language, Split::kValidation, o.validation);
           }},
          {"valid.kinds.jsonl",
           [&](const fs::path& p) { return write_kinds(p, language, o.validation); }},
          {"vocab.txt", [&](const fs::path& p) { return write_vocabulary(p, language); }}};
}

Targets c4_targets(const MakeDataOptions& o, const Language& language) {
  HYDRAMIX_CHECK_USAGE(o.shards <= o.documents, "make-data: ", o.shards, " shards for ",
                       o.documents, " documents; expected at least a document each. Lower --shards",
                       " or raise --documents.");
  Targets targets;
  for (int64_t s = 0; s < o.shards; ++s) {
    const DocumentRange range{Split::kTrain, o.documents * s / o.shards,
                              o.documents * (s + 1) / o.shards};
    targets.push_back({formatted("en/c4-train.%05lld-of-%05lld.json.gz", s, o.shards),
                       [&, range](const fs::path& p) { return write_c4(p, language, range); }});
  }
  targets.push_back({"en/c4-validation.00000-of-00001.json.gz", [&](const fs::path& p) {
                       return write_c4(p, language, {Split::kValidation, 0, o.validation});
                     }});
  targets.push_back(
      {"vocab.txt", [&](const fs::path& p) { return write_vocabulary(p, language); }});
  return targets;
}

Targets glue_targets(const MakeDataOptions& o) {
  Targets targets;
  for (const auto& task : glue_tasks())
    for (auto& file : make_glue_task(task, o.glue, o.language.seed))
      targets.push_back({file.path, [file = std::move(file)](const fs::path& p) {
                           write_file(p, file.contents);
                           return concat(file.rows, " rows");
                         }});
  return targets;
}

Targets example_targets(const MakeDataOptions& o) {
  Targets targets;
  for (auto& file : make_example_files(o.glue.train, o.language.seed))
    targets.push_back({file.name, [file = std::move(file), rows = o.glue.train](const fs::path& p) {
                         write_file(p, file.contents);
                         return concat(rows, " examples");
                       }});
  return targets;
}

DrawnOptions drawn_options(const MakeDataOptions& o) {
  DrawnOptions drawn{o.glue.train, o.validation, o.side, o.language.seed};
  validate(drawn);
  return drawn;
}

Targets cifar10_targets(const MakeDataOptions& o) {
  constexpr int64_t kInFile = 10000;
  const DrawnOptions drawn = drawn_options(o);
  HYDRAMIX_CHECK_USAGE(o.side == 32, "make-data: CIFAR-10's format holds images of 32 x 32; got ",
                       "--side ", o.side, ". Leave it out, or choose --format png.");
  Targets targets;
  const auto add = [&](const std::string& name, ImageSplit split, int64_t first, int64_t count) {
    targets.push_back({name, [=](const fs::path& p) {
                         write_file(p, drawn_cifar10(drawn, split, first, count));
                         return concat(count, " images");
                       }});
  };
  for (int64_t first = 0; first < drawn.train; first += kInFile)
    add(formatted("data_batch_%lld.bin", first / kInFile + 1), ImageSplit::kTrain, first,
        std::min(kInFile, drawn.train - first));
  add("test_batch.bin", ImageSplit::kValidation, 0, drawn.validation);
  targets.push_back({"batches.meta.txt", [](const fs::path& p) {
                       std::string names;
                       for (const auto& name : drawn_classes()) names += name + "\n";
                       write_file(p, names);
                       return concat(drawn_classes().size(), " classes");
                     }});
  return targets;
}

int make_image_folders(const MakeDataOptions& o) {
  const fs::path out = o.out.empty() ? "data/images" : o.out;
  const DrawnOptions drawn = drawn_options(o);
  const int64_t total = drawn.train + drawn.validation;
  Progress progress("images", total, "images");
  const int64_t written = write_drawn_folders({out, drawn, o.format, o.overwrite},
                                              [&](int64_t done) { progress.advance_to(done); });
  std::printf("wrote %s: %lld images in %zu classes", out.c_str(), static_cast<long long>(total),
              drawn_classes().size());
  if (written < total)
    std::printf(", %lld of them by an earlier run", static_cast<long long>(total - written));
  std::printf("\n");
  return 0;
}

int make_data(const MakeDataOptions& o) {
  if (o.action == "images" && o.format != "cifar10") return make_image_folders(o);
  const Language language(o.language);
  const Targets targets = o.action == "text"     ? text_targets(o, language)
                          : o.action == "c4"     ? c4_targets(o, language)
                          : o.action == "glue"   ? glue_targets(o)
                          : o.action == "images" ? cifar10_targets(o)
                                                 : example_targets(o);
  const fs::path out = o.out.empty() ? fs::path("data") / o.action : fs::path(o.out);
  for (const auto& target : targets) {
    const fs::path path = out / target.path;
    HYDRAMIX_CHECK(o.overwrite || !fs::exists(fs::symlink_status(path)), path.string(),
                   ": there is a file of this name already. Choose another --out, or replace it",
                   " with --overwrite.");
  }
  for (const auto& target : targets) {
    const fs::path path = out / target.path;
    std::error_code problem;
    fs::create_directories(path.parent_path(), problem);
    HYDRAMIX_CHECK(!problem, path.parent_path().string(), ": cannot be made a folder (",
                   problem.message(), "). Choose another --out.");
    const std::string contents = target.write(path);
    std::printf("wrote %s: %s\n", path.c_str(), contents.c_str());
  }
  return 0;
}

}  // namespace

Command make_data_command() {
  return make_command<MakeDataOptions>(
      "make-data", "write documents and tasks of the built-in language, and drawn images",
      make_data,
      "Examples:\n"
      "  hydramix make-data text --out language --documents 5000\n"
      "  hydramix make-data glue --out glue --train 20000\n"
      "  hydramix make-data examples --out data --train 2000\n"
      "  hydramix make-data images --out shapes --train 10000 --validation 2000\n"
      "text: train.txt and valid.txt (one document per line, with an empty line between "
      "documents), valid.kinds.jsonl (what each word depends on) and vocab.txt. c4: the same "
      "documents laid out as C4. glue: eight tasks laid out as the official files. examples: a "
      "file for each task of hydramix finetune. images: ten classes of shapes and textures, in "
      "train/ and val/ with a folder per class; a run that was interrupted continues. Equal "
      "options give equal files.");
}

}  // namespace hydramix
