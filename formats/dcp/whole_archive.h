// PRIVATE: torch archives of one rank beside or in the place of a distributed checkpoint, whose
// tensors are whole.
#pragma once

#include <cstdint>
#include <string>

#include "formats/dcp/folder.h"
#include "formats/torch/archive.h"

namespace nxdkit::dcp {

// Adds what an archive holds to a folder, key by key.
class WholeArchive {
 public:
  WholeArchive(const torch::Archive& archive, Folder& out);

  void Add(std::string key, torch::TensorIndex index);
  // A tensor, or a value of its own.
  void AddAny(std::string key, const torch::PickleValue& value);

 private:
  const torch::Archive& archive_;
  Folder& out_;
  uint32_t file_;
};

// The Trainer's scheduler.pt beside the checkpoint, under "lr_scheduler.", where it is there. A
// warning says why it is left, where it is no dict of numbers.
Status AddSchedulerFile(const std::string& path, const Looker& look, Folder& out);

}  // namespace nxdkit::dcp
