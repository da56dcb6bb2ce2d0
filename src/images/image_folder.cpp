// SPDX-License-Identifier: Apache-2.0
#include "images/image_folder.h"

#include <algorithm>
#include <cctype>

#include "base/crc32c.h"
#include "base/fnv.h"
#include "base/formatted.h"
#include "base/list_folder.h"
#include "base/quotes.h"
#include "base/read_file.h"
#include "base/spelling.h"
#include "hydramix/error.h"
#include "images/decode.h"

namespace hydramix {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> listing(const fs::path& folder) {
  std::error_code problem;
  auto entries = list_folder(folder, problem);
  HYDRAMIX_CHECK(!problem, folder.string(), ": cannot be listed: ", problem.message(),
                 ". Check the path and its permissions.");
  return entries;
}

EncodedImage encoded(const std::string& bytes) {
  return {reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size()};
}

bool is_hidden(const fs::path& path) { return path.filename().string().starts_with('.'); }

std::vector<std::string> image_files(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : listing(folder)) {
    std::error_code problem;  // a link that leads nowhere is no image
    if (!is_hidden(entry) && names_image(entry) && fs::is_regular_file(entry, problem))
      names.push_back(entry.filename().string());
  }
  return names;
}

constexpr int64_t kFilesHashed = 1000;  // at most, for a fingerprint

// Returns 0 for a file that cannot be read; loading it will report the error.
uint32_t contents_checksum(const fs::path& file) {
  try {
    return crc32c(read_file(file, kImageFile));
  } catch (const Error&) {
    return 0;
  }
}

class ImageFolder final : public ImageCollection {
 public:
  ImageFolder(const fs::path& folder, std::vector<std::string> classes)
      : folder_(folder), classes_(std::move(classes)) {
    const auto present = class_folders(folder);
    for (const auto& name : present)
      HYDRAMIX_CHECK(std::find(classes_.begin(), classes_.end(), name) != classes_.end(),
                     (folder / name).string(), ": is a class that the training set lacks.",
                     did_you_mean(name, classes_),
                     " Remove the folder, or give the training set one of this name.");
    ends_.reserve(classes_.size());
    for (const auto& name : classes_) {
      if (std::find(present.begin(), present.end(), name) != present.end()) add_class(name);
      ends_.push_back(size());
    }
    HYDRAMIX_CHECK(size() > 0, folder_.string(), ": has no images.");
  }

  int64_t size() const override { return std::ssize(begins_) - 1; }
  const std::vector<std::string>& classes() const override { return classes_; }
  int64_t label(int64_t i) const override {
    return std::upper_bound(ends_.begin(), ends_.end(), i) - ends_.begin();
  }
  std::string name(int64_t i) const override { return path(i).string(); }

  Image load(int64_t i) const override {
    const fs::path file = path(i);
    const std::string bytes = read_file(file, kImageFile);
    return decode_image(encoded(bytes), file.string());
  }
  ImagePart load_part(int64_t i, const ChoosePart& choose) const override {
    const fs::path file = path(i);
    const std::string bytes = read_file(file, kImageFile);
    return decode_part(encoded(bytes), file.string(), choose);
  }
  // Covers all names and sizes, and the contents of a thousand files, evenly spread. Reading all of
  // ImageNet would take many minutes.
  std::string fingerprint() const override {
    uint64_t hash = fnv1a(names_, sizes_);
    for (const auto& name : classes_) hash = fnv1a(name + "/", hash);
    for (const int64_t end : ends_) hash = fnv1a(std::to_string(end) + "/", hash);
    const int64_t every = (size() + kFilesHashed - 1) / kFilesHashed;
    for (int64_t i = 0; i < size(); i += every)
      hash = fnv1a(std::to_string(contents_checksum(path(i))), hash);
    return formatted("folder-%lld-%s", size(), concat(std::hex, hash));
  }

 private:
  void add_class(const std::string& name) {
    const auto files = image_files(folder_ / name);
    HYDRAMIX_CHECK(!files.empty(), (folder_ / name).string(),
                   ": has no JPEG or PNG files (.jpg, .jpeg, .png), but every class needs images. "
                   "Add some, or remove the folder.");
    for (const auto& file : files) {
      std::error_code problem;  // a file that vanishes is named when it is loaded
      const auto bytes = fs::file_size(folder_ / name / file, problem);
      sizes_ = fnv1a(std::to_string(bytes) + "/", sizes_);
      names_ += file;
      begins_.push_back(names_.size());
    }
  }
  fs::path path(int64_t i) const {
    const auto at = static_cast<std::size_t>(i);
    return folder_ / classes_[static_cast<std::size_t>(label(i))] /
           names_.substr(begins_[at], begins_[at + 1] - begins_[at]);
  }

  fs::path folder_;
  std::vector<std::string> classes_;
  std::vector<int64_t> ends_;              // images before the end of each class
  std::string names_;                      // of all files: a million strings would take twice this
  std::vector<std::size_t> begins_ = {0};  // of each name, and the end of the last
  uint64_t sizes_ = kFnvStart;             // a hash of all files' sizes
};

}  // namespace

std::vector<std::string> class_folders(const fs::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : listing(folder)) {
    std::error_code problem;
    if (!is_hidden(entry) && fs::is_directory(entry, problem))
      names.push_back(entry.filename().string());
  }
  return names;
}

bool names_image(const fs::path& path) {
  std::string ending = path.extension().string();
  std::transform(ending.begin(), ending.end(), ending.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return ending == ".jpg" || ending == ".jpeg" || ending == ".png";
}

std::unique_ptr<ImageCollection> image_folder(const fs::path& folder,
                                              std::vector<std::string> classes) {
  return std::make_unique<ImageFolder>(folder, std::move(classes));
}

}  // namespace hydramix
