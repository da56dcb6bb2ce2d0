// SPDX-License-Identifier: Apache-2.0
// Writes a gzip file atomically (AtomicFile). Its header holds neither name nor time, so equal
// contents give equal files.
#pragma once

#include <filesystem>
#include <memory>
#include <string_view>

namespace hydramix {

class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& target);
  ~GzipFile();
  GzipFile(const GzipFile&) = delete;
  GzipFile& operator=(const GzipFile&) = delete;

  void write(std::string_view text);
  void commit();  // nothing may be written afterwards

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hydramix
