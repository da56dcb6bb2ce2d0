// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <sstream>

#include "base/atomic_file.h"
#include "hydramix/error.h"

namespace hydramix {

Metrics::Metrics(std::filesystem::path path, int64_t step) : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) {
    std::istringstream lines(read_file(path_));
    std::string kept, line;
    while (std::getline(lines, line)) {
      // The last line of a killed run may be incomplete.
      const auto object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
      if (object.is_object() && object.contains("step") && object["step"].is_number_integer() &&
          object["step"].get<int64_t>() <= step)
        kept += line + "\n";
    }
    write_file(path_, kept);
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  HYDRAMIX_CHECK(descriptor_ >= 0, path_.string(), ": cannot be opened: ", std::strerror(errno),
                 ". Check that the folder is writable.");
}

Metrics::~Metrics() { close(descriptor_); }

void Metrics::add(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  // One write per line, so that a reader that follows the file sees whole lines.
  const ssize_t written = ::write(descriptor_, text.data(), text.size());
  HYDRAMIX_CHECK(written == static_cast<ssize_t>(text.size()), path_.string(),
                 ": cannot be written: ", std::strerror(errno), ". Is the disk full?");
}

}  // namespace hydramix
