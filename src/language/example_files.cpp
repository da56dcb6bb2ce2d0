// SPDX-License-Identifier: Apache-2.0
#include "language/example_files.h"

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>

#include "language/facts.h"
#include "language/glue_examples.h"
#include "language/lexicon.h"

namespace hydramix {
namespace {

using ExampleJson = nlohmann::ordered_json;

const std::string& word_of(const char* name, Random& random) {
  return random.pick(word_class(name).words);
}

// An example of a GLUE task of the language, with its label.
struct LabelledExample {
  GlueExample text;
  std::string label;
};

LabelledExample example_of(const std::string& task, Random& random) {
  for (const auto& known : glue_task_list()) {
    if (known.name != task) continue;
    const auto label = static_cast<std::size_t>(random.below(std::ssize(known.labels)));
    return {known.make(label, /*shifted=*/false, random), known.labels[label]};
  }
  return {};
}

std::string csv_cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string cell = "\"";
  for (const char c : text) cell += c == '"' ? std::string("\"\"") : std::string(1, c);
  return cell + "\"";
}

std::string review(Random& random) {
  const auto [text, label] = example_of("SST-2", random);
  return text.first + "\t" + (label == "1" ? "good" : "bad") + "\n";
}

std::string question_pair(Random& random) {
  const auto [text, label] = example_of("QQP", random);
  return csv_cell(text.first) + "," + csv_cell(text.second) + (label == "1" ? ",yes\n" : ",no\n");
}

std::string similar(Random& random) {
  const auto [text, label] = example_of("STS-B", random);
  return ExampleJson{{"first", text.first}, {"second", text.second}, {"score", std::stod(label)}}
             .dump() +
         "\n";
}

// One to three goods, which are the labels.
std::string purchase(Random& random) {
  auto goods = word_class("goods").words;
  random.shuffle(goods);
  goods.resize(static_cast<std::size_t>(1 + random.below(3)));
  std::string text = word_of("name", random) + " found ";
  for (std::size_t i = 0; i < goods.size(); ++i) text += (i == 0 ? "" : " and ") + goods[i];
  return ExampleJson{{"text", to_prose(text + " in " + word_of("city", random) + " .")},
                     {"goods", goods}}
             .dump() +
         "\n";
}

std::string tagged(Random& random) {
  const std::string person = word_of("name", random) + " B-PER\n";
  const std::string place = "in O\n" + word_of("city", random) + " B-LOC\n";
  const std::string object =
      "the O\n" + word_of("colour", random) + " B-OBJ\n" + word_of("object", random) + " I-OBJ\n";
  if (random.chance(1, 2)) return place + person + "found O\n" + object + ". O\n\n";
  return person + "found O\n" + object + place + ". O\n\n";
}

std::string answer(Random& random) {
  const auto fact = distinct_facts(1, random).front();
  return csv_cell(to_prose(question(fact, random.below(kWordings)))) + "," +
         csv_cell(to_prose(statement(fact, random.below(kWordings)) + " .")) + "\n";
}

}  // namespace

std::vector<ExampleTextFile> make_example_files(int64_t rows, int64_t seed) {
  struct Kind {
    const char *name, *header;
    std::string (*row)(Random& random);
  };
  const Kind kinds[] = {{"reviews.tsv", "review\tverdict\n", review},
                        {"questions.csv", "first,second,same\n", question_pair},
                        {"similar.jsonl", "", similar},
                        {"purchases.jsonl", "", purchase},
                        {"people.conll", "", tagged},
                        {"answers.csv", "question,answer\n", answer}};
  constexpr uint64_t kStream = 0x4558414d;  // differs from the other streams of the seed
  std::vector<ExampleTextFile> files;
  for (const auto& kind : kinds) {
    ExampleTextFile file{kind.name, kind.header};
    for (int64_t i = 0; i < rows; ++i) {
      Random random(static_cast<uint64_t>(seed), kStream + files.size(), static_cast<uint64_t>(i));
      file.contents += kind.row(random);
    }
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace hydramix
