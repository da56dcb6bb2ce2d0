// SPDX-License-Identifier: Apache-2.0
#include "torture/hostile.h"

#include <sys/stat.h>

#include <fstream>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace torture {
namespace {

namespace fs = std::filesystem;

template <class T>
const T& any_of(const std::vector<T>& from, std::mt19937& random) {
  return from[random() % from.size()];
}

// These would train for hours with the options left out.
bool is_long(const std::string& command) {
  for (const char* name : {"demo", "pretrain", "finetune", "glue", "bench", "make-data"})
    if (command == name) return true;
  return false;
}

}  // namespace

HostileGrammar::HostileGrammar(Server& server, const fs::path& folder) {
  const auto ask = [&](const std::vector<std::string>& arguments) {
    const auto ended = server.run({folder, arguments});
    if (ended.code != 0) throw std::runtime_error("no help: " + ended.err);
    return ended.out;
  };
  std::istringstream help(ask({"help"}));
  bool listed = false;
  for (std::string line; std::getline(help, line);) {
    if (line == "commands:") listed = true;
    if (line.empty()) listed = listed && commands_.empty();
    if (listed && line.starts_with("  ") && line.size() > 2 && line[2] != ' ')
      commands_.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  static const std::regex option(R"(--(?:\[no-\])?[a-z][a-z.-]*)");
  for (const auto& command : commands_) {
    const std::string text = ask({"help", command});
    for (std::sregex_iterator found(text.begin(), text.end(), option), end; found != end; ++found)
      options_[command].push_back(std::regex_replace(found->str(), std::regex(R"(\[no-\])"), ""));
  }
  if (commands_.size() < 10) throw std::runtime_error("cannot read the list of commands");

  // Nothing here may lead to a file outside of the working folder being written.
  const auto files = folder / "hostile";
  fs::create_directories(files / "folder");
  mkfifo((files / "pipe").c_str(), 0600);
  std::ofstream(files / "empty").flush();
  std::ofstream(files / "brackets.json") << std::string(200'000, '[');
  std::ofstream(files / "objects.json") << [] {
    std::string text;
    for (int i = 0; i < 50'000; ++i) text += "{\"a\":";
    return text;
  }();
  std::ofstream(files / "bytes.txt") << "\xff\xfe\x80 text\n";
  std::ofstream(files / "line.txt") << std::string(2'000'000, 'x') << '\n';
  std::ofstream(files / "bad.yaml") << "a: &a [*a, *a]\n";
  std::ofstream(files / "config.json") << R"({"format": "hydramix-model", "version": 1e400})";
  values_ = {"",
             " ",
             "-",
             "--",
             "-1",
             "0",
             "1",
             "3",
             "nan",
             "-inf",
             "1e999",
             "1e-999",
             "0x10",
             "9223372036854775807",
             "9223372036854775808",
             "-9223372036854775809",
             "16777216",
             "true",
             "null",
             "[]",
             "{}",
             "[[[[",
             "{a: 1",
             "a=b",
             "=",
             "a.b.c=d",
             "%s%n",
             "\\",
             "'",
             "\"",
             "$(x)",
             "`x`",
             "*",
             "\xff\xfe",
             "\xf0\x9f\x98\x80",
             "a\nb",
             "a\tb",
             ".",
             "..",
             "name",
             "/dev/null",
             "/dev/zero",
             "/dev/full",
             "/dev/stdin",
             "/proc/self/mem",
             "/proc/absent/x",
             "[MASK]",
             "hydra",
             "auto",
             "language",
             "cpu",
             "cuda",
             std::string(5000, 'x'),
             std::string(60'000, '['),
             "../fixtures/train.txt"};
  for (const char* name : {"folder", "pipe", "empty", "brackets.json", "objects.json", "bytes.txt",
                           "line.txt", "bad.yaml", "config.json", "absent"})
    values_.push_back((files / name).string());
  for (const char* name : {"vocab.txt", "model", "run", "data", "classifier", "train.txt",
                           "lines.txt", "dev.tsv", "weights.pt", "model/model.safetensors"})
    values_.push_back((folder / "fixtures" / name).string());
}

std::string HostileGrammar::value(std::mt19937& random) const {
  std::string text = any_of(values_, random);
  if (random() % 8 == 0 && text.size() < 1000 && text.find('/') == text.npos)
    text.insert(random() % (text.size() + 1), 1, static_cast<char>(1 + random() % 255));
  return text;
}

std::vector<std::string> HostileGrammar::line(std::mt19937& random) const {
  std::vector<std::string> words;
  const std::string command = random() % 20 == 0 ? value(random) : any_of(commands_, random);
  words.push_back(command);
  const auto known = options_.find(command);
  for (unsigned count = random() % 6; count > 0; --count) {
    const auto kind = random() % 4;
    if (kind == 0 || known == options_.end()) {
      words.push_back(value(random));
      continue;
    }
    std::string option = any_of(known->second, random);
    // A result may go to the working folder only.
    const bool writes = option == "--out" || option == "--write";
    if (random() % 16 == 0) option.insert(random() % option.size(), 1, 'x');
    const std::string given = writes ? "out-" + std::to_string(random() % 3) : value(random);
    if (kind == 1) {
      words.push_back(option + "=" + given);
    } else {
      words.push_back(option);
      if (random() % 5 > 0) words.push_back(given);
    }
  }
  if (is_long(command) && random() % 8 > 0) words.emplace_back("--print-config");
  return words;
}

}  // namespace torture
