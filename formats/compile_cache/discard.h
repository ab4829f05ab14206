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
// for it goes too, and before it the owner's file.
class EntryHold {
 public:
  EntryHold() = default;
  explicit EntryHold(FolderLock folder) : folder_(std::move(folder)) {}
  // `made`: the path of the file, when it was not there before.
  EntryHold(Descriptor file, std::string made) : file_(std::move(file)), made_(std::move(made)) {}
  EntryHold(EntryHold&& other) noexcept
      : folder_(std::move(other.folder_)),
        file_(std::move(other.file_)),
        made_(std::exchange(other.made_, "")),
        owner_(std::exchange(other.owner_, "")) {}
  EntryHold& operator=(EntryHold&& other) = delete;
  ~EntryHold();

  bool holds() const { return folder_ || file_.is_open(); }  // false: there was nothing to lock
  // Writes the owner's file of an entry, as the engine does that holds the lock. A full disk, on
  // which a prune makes room, is no reason to do without the lock.
  void TellOwner(const std::string& root, const std::string& key);

 private:
  std::optional<FolderLock> folder_;
  Descriptor file_;
  std::string made_;
  std::string owner_;
};

struct HoldOptions {
  TreeMoment moment;
  std::string neff_tree_locks;  // the folder of TorchNeuron's locks; "" for none
  bool ask_only = false;        // nothing is made, and so nothing held: for a dry run
};
// nullopt: somebody works on the entry. Of the first tree its folder is locked, if it is there; of
// the others the file that their own processes lock (vllm-neuron: .<key>.compilation_metadata.lock,
// with the owner's file beside it; torch-neuronx: <key>.lock), which is made where its folder is.
Result<std::optional<EntryHold>> HoldEntry(const FoundTree& tree, const std::string& name,
                                           const HoldOptions& options);
// The same for the lock of a kernel, by the path of nki/<key>.json.
Result<std::optional<EntryHold>> HoldKernel(const std::string& path, bool ask_only = false);
// The same for the file of a lock at `path`.
Result<std::optional<EntryHold>> HoldLockFile(const std::string& path);
// Removes a lock's file that nobody holds or has open.
Status RemoveIdleLock(const std::string& path);

// Moves an entry that is held out of sight. The path is that of its trash, to be removed when the
// lock is released; "" when nothing is left of it.
Result<std::string> MoveAway(const FoundTree& tree, const std::string& name);

// The same in a libneuronxla tree, of the folder at `path`, and its trash removed.
Status DiscardFromCache(const std::string& root, const std::string& path);

}  // namespace nxdkit::neff
