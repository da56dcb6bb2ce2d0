// SPDX-License-Identifier: Apache-2.0
// Scalars in the event files that TensorBoard reads.
//
// A file is a row of records: length (8 bytes), its masked CRC-32C, the data, its masked CRC-32C;
// the data is a protocol buffer, Event. Five of its fields are used and encoded by hand. Records
// are appended and never changed, so a reader may follow the file, and a crash loses only the last
// record. The file therefore need not be written atomically.
//
// Every start of a run creates a new file in the same folder. A resumed run records its first step,
// and TensorBoard drops later steps of earlier files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace hydramix {

class TensorBoardWriter {
 public:
  // Creates the folder and events.out.tfevents.<time>.<host>.<pid>.<count> in it.
  explicit TensorBoardWriter(const std::filesystem::path& folder);
  ~TensorBoardWriter();  // flushes; an error is lost there, so call flush() at the end
  TensorBoardWriter(const TensorBoardWriter&) = delete;
  TensorBoardWriter& operator=(const TensorBoardWriter&) = delete;

  // The run starts or resumes at this step: the next scalar is of this step or later.
  void start(int64_t step, double wall_time);
  // wall_time: seconds since 1970.
  void scalar(std::string_view tag, double value, int64_t step, double wall_time);
  void flush();  // makes everything written so far readable

  const std::filesystem::path& path() const { return path_; }

 private:
  void append(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string buffer_;
};

}  // namespace hydramix
