// PRIVATE: a tag's tensors as the entries of a folder, added part by part.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "formats/dcp/shard_entries.h"
#include "formats/torch/archive.h"
#include "formats/zero/partition.h"

namespace nxdkit::zero {

std::string StateKey(const std::string& name, std::string_view what);

class TagEntries {
 public:
  // Both must outlive it.
  TagEntries(dcp::Folder& out, dcp::FolderFiles& files)
      : out_(out), files_(files), entries_(out, files) {}

  // Reads a file of the tag. kCorrupt where it was saved as the file of another rank.
  Result<torch::Archive> Read(const std::string& name, int rank);

  bool Has(const std::string& key) const { return entries_.Find(key) != nullptr; }
  Status AddWhole(const std::string& file, const std::string& key, const StoredTensor& stored);
  // Adds a parameter's parts in the ranks' flat tensors. kCorrupt where `flat_of` gives nullptr for
  // a rank that has a part.
  using FlatOf = std::function<const StoredTensor*(int rank)>;
  Status AddRanges(const std::map<int, std::string>& files, const Place& place,
                   const std::string& key, const FlatOf& flat_of);
  // Adds the step as a tensor without dimensions, as torch keeps it.
  Status AddStep(const std::string& file, const std::string& name, double step);
  // Adds a group's options, for one of its parameters.
  Status AddOptions(const std::string& name, const torch::PickleValue& group);

 private:
  dcp::Folder& out_;
  dcp::FolderFiles& files_;
  dcp::ShardEntries entries_;
  std::set<uint32_t> read_;
};

}  // namespace nxdkit::zero
