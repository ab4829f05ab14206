// PRIVATE: builds files and folders under temporary names in a tree, syncs them, and renames each
// in one step.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

// Writes a new file at `aside`, replacing one left by a killed process. With `like` it gets the
// mode and owner of that file.
Status WriteAside(const std::string& aside, std::string_view text, const std::string& like = "");

// Renames `aside` to `target`, unless that exists; returns whether it did.
Result<bool> PublishNew(const std::string& aside, const std::string& target);
// Renames a file over another.
Status PublishOver(const std::string& aside, const std::string& target);

// Publications that wait until their files are synced: one sync for many, because one for each file
// of ten thousand entries takes minutes. Nothing gets its name before Flush has synced.
class Batch {
 public:
  // `folder` is on the file system on which everything is built.
  explicit Batch(std::string folder) : folder_(std::move(folder)) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  // Removes everything that still waits: an error, perhaps a full disk, ended the work.
  ~Batch();

  // `publish` renames the file or folder at `aside`, which has `bytes`, to a name under `parent`;
  // in the order of adding. A full batch is published at once.
  Status Add(std::string aside, uint64_t bytes, std::string parent,
             std::function<Status()> publish);
  Status Flush();

 private:
  std::string folder_;
  struct Waiting {
    std::string aside;
    std::function<Status()> publish;
  };
  std::vector<Waiting> waiting_;
  std::set<std::string> parents_;
  uint64_t bytes_ = 0;
};

}  // namespace nxdkit::neff
