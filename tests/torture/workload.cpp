// SPDX-License-Identifier: Apache-2.0
#include "torture/workload.h"

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace torture {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

Words words(const std::string& text) {
  std::istringstream in(text);
  Words result;
  for (std::string word; in >> word;) result.push_back(word);
  return result;
}

// Four steps, a checkpoint after each.
const std::string kPretrain =
    "pretrain --device cpu --model.vocab 300 --model.layers 1 --model.block.d-model 16 "
    "--model.block.headdim 8 --model.block.mixer-options.d-state 4 --data.evaluation-documents 4 "
    "--train.batch 4 --train.micro-batch 4 --train.log-every 1 --train.evaluate-every 2 "
    "--train.checkpoint-every 1 --train.optimizer.rate 1e-3 --train.steps 4 ";
const std::string kLanguage = kPretrain + "--data.language-documents 20 ";
const std::string kShards = kPretrain +
                            "--data.train @/data --data.validation @/data "
                            "--data.vocab @/vocab.txt ";
const std::string kFinetune =
    "finetune --device cpu --task RTE --recipe tiny --epochs 1 --batch 8 --max-length 24 ";
const std::string kRecall =
    "train-recall --device cpu --model.vocab 20 --model.layers 1 --model.block.d-model 16 "
    "--model.block.headdim 8 --model.block.mixer-options.d-state 4 --recall.length 8 "
    "--recall.pairs 2 --recall.evaluated 4 --train.batch 4 --train.micro-batch 4 "
    "--train.log-every 1 --train.evaluate-every 2 --train.checkpoint-every 1 --train.steps 4 ";

const std::string kTrainImages =
    "train-images --device cpu --model.size 16 --model.patch 8 --model.layers 1 "
    "--model.block.d-model 16 --model.block.headdim 8 --model.block.mixer-options.d-state 4 "
    "--augment.size 16 --data.drawn.side 16 --data.drawn.train 16 --data.drawn.validation 10 "
    "--data.workers 2 --train.epochs 1 --train.warmup-epochs 0 --train.batch 4 "
    "--train.micro-batch 4 --train.log-every 1 --train.checkpoint-every 1 ";

// Removes what differs between equal runs: fields of time, the name of the folder, and the checksum
// of a JSON file, in which both are.
std::string comparable(std::string text, const fs::path& folder) {
  static const std::regex times(R"re("([a-z_/]*(?:seconds|per_second|time)": ?)[-+0-9.e]+)re");
  static const std::regex checksum(R"re(,\s*"crc32c": ?"[0-9a-f]{8}"\s*\}\s*$)re");
  for (std::size_t at; (at = text.find(folder.string())) != text.npos;)
    text.replace(at, folder.string().size(), "@");
  return std::regex_replace(std::regex_replace(text, times, "\"$010"), checksum, "}");
}

void copy_fixture(const fs::path& from, const fs::path& to) {
  fs::create_directories(to.parent_path());
  fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing);
}

}  // namespace

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all{
      {"tokenizer train",
       {"train.txt"},
       words("tokenizer train --input @/train.txt --out @/new.txt --size 300"),
       {"new.txt"}},
      {"tokenizer encode",
       {"vocab.txt", "lines.jsonl"},
       words("tokenizer encode --vocab @/vocab.txt --jsonl @/lines.jsonl"),
       {},
       true},
      {"tokenize",
       {"vocab.txt", "train.txt"},
       words("tokenize @/train.txt --vocab @/vocab.txt --out @/new --shard-tokens 300 --threads 2"),
       {"new"}},
      {"tokenize verify", {"data"}, words("tokenize --verify @/data"), {}, true},
      {"verify", {"model"}, words("verify @/model"), {}, true},
      {"make-data",
       {},
       words("make-data text --out @/new --documents 5 --validation 2 --overwrite"),
       {"new"}},
      {"fill-mask",
       {"model"},
       {"fill-mask", "--model", "@/model", "anna likes the [MASK] ."},
       {},
       true},
      {"embed",
       {"model", "lines.txt"},
       words("embed @/lines.txt --model @/model --out @/new.npy"),
       {"new.npy"}},
      {"evaluate",
       {"model", "data"},
       words("evaluate @/model --data @/data --documents 4 --json"),
       {},
       true},
      {"predict",
       {"classifier", "dev.tsv"},
       words("predict @/classifier @/dev.tsv --task RTE --out @/new.tsv"),
       {"new.tsv"}},
      {"convert to pt", {"model"}, words("convert @/model @/new.pt"), {"new.pt"}},
      {"convert from pt",
       {"weights.pt"},
       words("convert @/weights.pt @/new.safetensors"),
       {"new.safetensors"}},
      {"convert to folder",
       {"weights.pt"},
       words("convert @/weights.pt @/new --overwrite"),
       {"new"}},
      {"export-onnx", {"model"}, words("export-onnx @/model @/new.onnx"), {"new.onnx"}},
      {"export-hf", {"model"}, words("export-hf @/model @/new --overwrite"), {"new"}},
      {"matrix",
       {"model"},
       {"matrix", "--model", "@/model", "--text", "anna likes the map .", "--out", "@/new.svg"},
       {"new.svg"}},
      {"curves", {"run"}, words("curves @/run --out @/new.svg"), {"new.svg"}},
      {"show-augmentations",
       {},
       words("show-augmentations --augment.size 32 --out @/new.svg"),
       {"new.svg"}},
      {"pretrain", {}, words(kLanguage + "--out @/new"), {"new/model", "new/metrics.jsonl"}},
      {"pretrain resume",
       {"half"},
       words(kLanguage + "--out @/half"),
       {"half/model", "half/metrics.jsonl"}},
      {"pretrain on shards",
       {"data", "vocab.txt"},
       words(kShards + "--out @/new"),
       {"new/model", "new/metrics.jsonl"}},
      {"train-recall",
       {},
       words(kRecall + "--out @/new"),
       {"new/result.json", "new/metrics.jsonl"}},
      {"train-images",
       {},
       words(kTrainImages + "--out @/new"),
       {"new/model", "new/average", "new/metrics.jsonl", "new/confusion.tsv"}},
      {"classify",
       {"image_model", "picture.png"},
       words("classify @/image_model @/picture.png --out @/new.txt"),
       {"new.txt"}},
      {"finetune",
       {"run", "glue"},
       words(kFinetune + "--model @/run --data @/glue --out @/new"),
       {"new/model", "new/result.json"}},
  };
  return all;
}

void make_fixtures(Server& server, const fs::path& folder) {
  fs::create_directories(folder);
  const auto run = [&](const std::string& arguments) {
    const auto ended = server.run(request_of({arguments, {}, words(arguments), {}}, folder));
    if (ended.code != 0 || ended.signal != 0)
      throw std::runtime_error("cannot make the fixtures: hydramix " + arguments + ": " +
                               ended.err);
  };
  run("make-data text --out text --documents 40 --validation 5 --sorts 1");
  fs::copy(folder / "text/train.txt", folder / "train.txt");
  run("tokenizer train --input train.txt --out vocab.txt --size 300");
  {
    std::ifstream text(folder / "train.txt");
    std::ofstream lines(folder / "lines.txt"), jsonl(folder / "lines.jsonl");
    int count = 0;
    for (std::string line; count < 12 && std::getline(text, line);)
      if (!line.empty() && ++count > 0) {
        lines << line << '\n';
        jsonl << '"' << line << "\"\n";
      }
  }
  run("tokenize train.txt --vocab vocab.txt --out data --shard-tokens 700");
  run(kShards + "--out run");
  copy_fixture(folder / "run/model", folder / "model");
  // A run whose machine was lost after the second of its four steps.
  run(kLanguage + "--out half");
  fs::remove_all(folder / "half/model");
  for (const char* step : {"3", "4"})
    fs::remove(folder / "half/checkpoints" /
               ("step-000000000" + std::string(step) + ".safetensors"));
  run("make-data glue --out glue-all --train 24 --dev 8 --test 4");
  copy_fixture(folder / "glue-all/RTE", folder / "glue/RTE");
  fs::copy(folder / "glue/RTE/dev.tsv", folder / "dev.tsv");
  run(kFinetune + "--model run --data glue --out classifier");
  run("convert model weights.pt");
  run(kTrainImages + "--out image_run");
  copy_fixture(folder / "image_run/model", folder / "image_model");
  run("matrix hydra --length 16 --out picture.png");
}

void prepare(const Workload& workload, const fs::path& fixtures, const fs::path& folder) {
  fs::remove_all(folder);
  fs::create_directories(folder);
  for (const auto& name : workload.copies) copy_fixture(fixtures / name, folder / name);
}

Request request_of(const Workload& workload, const fs::path& folder) {
  Request request{folder, {}};
  for (const auto& word : workload.arguments)
    request.arguments.push_back(word.starts_with("@/") ? (folder / word.substr(2)).string() : word);
  return request;
}

Results results_of(const Workload& workload, const fs::path& folder, const Ended& ended) {
  Results results;
  const auto add = [&](const fs::path& path) {
    results[path.lexically_relative(folder).string()] = comparable(contents_of(path), folder);
  };
  for (const auto& name : workload.results) {
    const auto path = folder / name;
    if (fs::is_regular_file(path)) add(path);
    if (!fs::is_directory(path)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(path))
      if (entry.is_regular_file()) add(entry.path());
  }
  if (workload.prints) results["stdout"] = comparable(ended.out, folder);
  return results;
}

}  // namespace torture
