// SPDX-License-Identifier: Apache-2.0
#include "train/metrics.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/atomic_file.h"
#include "base/json_reader.h"
#include "hydramix/error.h"

namespace hydramix {

void read_metrics(const std::filesystem::path& path,
                  const std::function<void(const std::string&, const nlohmann::json&)>& use,
                  const std::function<void(const std::string&)>& warn) {
  const std::string text = read_file(path, kMetricsFile);
  int64_t number = 0, damaged = 0, first_damaged = 0;
  for (std::size_t begin = 0, end; begin < text.size(); begin = end + 1) {
    end = text.find('\n', begin);
    if (end == text.npos) break;
    ++number;
    const std::string line = text.substr(begin, end - begin);
    const auto values = try_parse_json<nlohmann::json>(line);
    if (values.is_object() && values.contains("step") && values["step"].is_number_integer())
      use(line, values);
    else if (++damaged == 1)
      first_damaged = number;
  }
  if (damaged > 0 && warn)
    warn(concat(path.string(), ": ", damaged, " of ", number, " lines damaged, the first is line ",
                first_damaged, "; left out."));
}

int64_t last_step(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return 0;
  const std::string text = read_file(path, kMetricsFile);
  for (std::size_t end = text.rfind('\n'); end != text.npos && end > 0;) {
    const std::size_t before = text.rfind('\n', end - 1);
    const std::size_t begin = before == text.npos ? 0 : before + 1;
    const auto values = try_parse_json<nlohmann::json>(text.substr(begin, end - begin));
    if (values.is_object() && values.contains("step") && values["step"].is_number_integer())
      return values["step"].get<int64_t>();
    end = before;
  }
  return 0;
}

Metrics::Metrics(std::filesystem::path path, int64_t step,
                 const std::function<void(const std::string&)>& warn)
    : path_(std::move(path)) {
  if (std::filesystem::exists(path_)) {
    std::string kept;
    read_metrics(
        path_,
        [&](const std::string& line, const nlohmann::json& values) {
          if (values["step"].get<int64_t>() <= step) kept += line + "\n";
        },
        warn);
    write_file(path_, kept);
  }
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  HYDRAMIX_CHECK(descriptor_ >= 0, path_.string(), ": cannot be opened: ", std::strerror(errno),
                 ". Check that the folder is writable.");
}

Metrics::~Metrics() { close(descriptor_); }

void Metrics::add(const nlohmann::ordered_json& line) {
  const std::string text = line.dump() + "\n";
  // A line in one write, where the system takes it whole, so that a reader that follows the file
  // sees whole lines.
  for (std::string_view rest = text; !rest.empty();) {
    const ssize_t written = ::write(descriptor_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    HYDRAMIX_CHECK(written >= 0, path_.string(), ": cannot be written: ", std::strerror(errno),
                   ". Is the disk full?");
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
}

}  // namespace hydramix
