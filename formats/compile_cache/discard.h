// PRIVATE: entries out of sight in one step, then removed; and who works on one.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "formats/compile_cache/tree.h"
#include "lib/system/descriptor.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::neff {

// Locks of the trees' own readers and makers. Released with the object; a lock's file that was made
// for it goes too.
class EntryHold {
 public:
  EntryHold() = default;
  explicit EntryHold(FolderLock folder) : folder_(std::move(folder)) {}
  // `made`: the path of the file, when it was not there before.
  EntryHold(Descriptor file, std::string made) : file_(std::move(file)), made_(std::move(made)) {}
  EntryHold(EntryHold&& other) noexcept
      : folder_(std::move(other.folder_)),
        file_(std::move(other.file_)),
        made_(std::exchange(other.made_, "")) {}
  EntryHold& operator=(EntryHold&& other) = delete;
  ~EntryHold();

 private:
  std::optional<FolderLock> folder_;
  Descriptor file_;
  std::string made_;
};

struct HoldOptions {
  TreeMoment moment;
  std::string neff_tree_locks;  // the folder of TorchNeuron's locks; "" for none
  bool ask_only = false;        // nothing is made, and so nothing held: for a dry run
};
// nullopt: somebody works on the entry. Of the first tree its folder is locked, if it is there; of
// the others the file that their own processes lock (vllm-neuron: .<key>.compilation_metadata.lock,
// torch-neuronx: <key>.lock), which is made where its folder is.
Result<std::optional<EntryHold>> HoldEntry(const FoundTree& tree, const std::string& name,
                                           const HoldOptions& options);

// Removes an entry that is held.
Status DiscardEntry(const FoundTree& tree, const std::string& name);

// The folder aside in a libneuronxla tree whose contents nobody asks for any more.
Status DiscardFromCache(const std::string& root, const std::string& path);

}  // namespace nxdkit::neff
