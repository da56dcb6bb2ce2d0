// SPDX-License-Identifier: Apache-2.0
#include "io/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <ctime>

#include "base/crc32c.h"
#include "hydramix/error.h"
#include "io/protobuf.h"

namespace hydramix {
namespace {

using protobuf::bytes_field;
using protobuf::double_field;
using protobuf::float_field;
using protobuf::integer_field;
using protobuf::little_endian;

constexpr std::size_t kBuffer = 1 << 16;  // written when full, or at flush()

// A CRC of data that itself holds CRCs is weak: records store it rotated and shifted.
uint32_t masked_crc(std::string_view data) { return std::rotr(crc32c(data), 15) + 0xa282ead8u; }

// Event: wall_time = 1, step = 2, and one of file_version = 3, summary = 5, session_log = 7.
std::string event(double wall_time, int64_t step, const std::string& what) {
  return double_field(1, wall_time) + integer_field(2, step) + what;
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

[[noreturn]] void fail(const std::filesystem::path& path, const char* what) {
  throw Error(concat(path.string(), ": ", what, ": ", std::strerror(errno),
                     ". Check the folder, its permissions and the space left."));
}

}  // namespace

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& folder) {
  // The count distinguishes starts within the same second. TensorBoard reads files in the order of
  // their names.
  static std::atomic<int> count = 0;
  const auto now = std::time(nullptr);
  std::error_code failure;
  std::filesystem::create_directories(folder, failure);
  if (failure)
    throw Error(concat(folder.string(), ": cannot be created: ", failure.message(),
                       ". Choose a folder that can be written."));
  std::string digits = std::to_string(now);
  digits.insert(0, digits.size() < 10 ? 10 - digits.size() : 0, '0');
  path_ = folder /
          concat("events.out.tfevents.", digits, ".", host_name(), ".", getpid(), ".", count++);
  descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail(path_, "cannot be created");
  append(event(static_cast<double>(now), 0, bytes_field(3, "brain.Event:2")));
  flush();
}

TensorBoardWriter::~TensorBoardWriter() {
  try {
    flush();
  } catch (const Error&) {
    // A destructor cannot report an error.
  }
  close(descriptor_);
}

void TensorBoardWriter::append(std::string_view event) {
  const std::string length = little_endian(static_cast<uint64_t>(event.size()));
  buffer_ += length;
  buffer_ += little_endian(masked_crc(length));
  buffer_ += event;
  buffer_ += little_endian(masked_crc(event));
  if (buffer_.size() > kBuffer) flush();
}

void TensorBoardWriter::start(int64_t step, double wall_time) {
  constexpr int64_t kStart = 1;  // SessionLog: status = 1
  append(event(wall_time, step, bytes_field(7, integer_field(1, kStart))));
}

void TensorBoardWriter::scalar(std::string_view tag, double value, int64_t step, double wall_time) {
  HYDRAMIX_CHECK(!tag.empty(), path_.string(), ": a scalar of step ", step,
                 " has no tag; give it a name.");
  // Summary: value = 1 { tag = 1, simple_value = 2 }
  append(event(wall_time, step,
               bytes_field(5, bytes_field(1, bytes_field(1, tag) +
                                                 float_field(2, static_cast<float>(value))))));
}

void TensorBoardWriter::flush() {
  std::size_t done = 0;
  while (done < buffer_.size()) {
    const ssize_t written = write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      buffer_.erase(0, done);
      fail(path_, "cannot be written");
    }
    done += static_cast<std::size_t>(written);
  }
  buffer_.clear();
}

}  // namespace hydramix
