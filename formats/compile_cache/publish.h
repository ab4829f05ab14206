// PRIVATE: files and folders built aside in a tree, brought to the disk, and given their names in
// one step.
#pragma once

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::neff {

// A new file aside, in the place of one that a killed process left. With `like` it has the mode and
// owner of that file.
Status WriteAside(const std::string& aside, std::string_view text, const std::string& like = "");

// Gives what lies at `aside` the name `target`, unless that is taken. Whether it was free.
Result<bool> PublishNew(const std::string& aside, const std::string& target);
// A file takes the place of another.
Status PublishOver(const std::string& aside, const std::string& target);

// Publications that wait until what they publish is on the disk: one sync for many, because one for
// each file of ten thousand entries takes minutes. Nothing has its name before Flush has synced.
class Batch {
 public:
  // `folder` lies on the file system that everything is built on.
  explicit Batch(std::string folder) : folder_(std::move(folder)) {}
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;
  // Removes all that still waits: an error ended the work, and may have been a full disk.
  ~Batch();

  // `publish` renames what lies at `aside` and has `bytes`, under `parent`; in the order of adding.
  // When the batch is full, all of it is published.
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
