// PRIVATE: torch archives of one rank, in addition to a distributed checkpoint or instead of one,
// whose tensors are whole.
#pragma once

#include <cstdint>
#include <string>

#include "formats/dcp/folder.h"
#include "formats/torch/archive.h"

namespace nxdkit::dcp {

// Adds the contents of an archive to a folder, key by key.
class WholeArchive {
 public:
  WholeArchive(const torch::Archive& archive, Folder& out);

  void Add(std::string key, torch::TensorIndex index);
  // Adds a tensor, or any other value.
  void AddAny(std::string key, const torch::PickleValue& value);

 private:
  const torch::Archive& archive_;
  Folder& out_;
  uint32_t file_;
};

// Adds the Trainer's scheduler.pt from the checkpoint's folder, if it exists, under
// "lr_scheduler.". If it is not a dict of numbers it is left out, with a warning that says why.
Status AddSchedulerFile(const std::string& path, const Looker& look, Folder& out);

}  // namespace nxdkit::dcp
