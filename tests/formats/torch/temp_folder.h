// A folder of its own for each test, removed with it.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "tests/formats/torch/archive_io.h"

namespace nxdkit::torch {

class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "nxdkit-torch-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  // Writes a file with this content into the folder; returns its path.
  std::string File(const std::string& name, std::string_view contents) const {
    const std::string path = path_ + "/" + name;
    WriteFile(path, contents);
    return path;
  }

 private:
  std::string path_;
};

}  // namespace nxdkit::torch
