// PRIVATE: moves entries out of sight in one step, then removes them; locks on entries.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "formats/compile_cache/tree.h"
#include "lib/system/descriptor.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::neff {

// Locks of the trees' own readers and makers, released with the object, which also removes the
// owner's file and then a lock file that it made.
class EntryHold {
 public:
  EntryHold() = default;
  explicit EntryHold(FolderLock folder) : folder_(std::move(folder)) {}
  // `made`: the path of the file, if it did not exist before.
  EntryHold(Descriptor file, std::string made) : file_(std::move(file)), made_(std::move(made)) {}
  EntryHold(EntryHold&& other) noexcept
      : folder_(std::move(other.folder_)),
        file_(std::move(other.file_)),
        made_(std::exchange(other.made_, "")),
        owner_(std::exchange(other.owner_, "")) {}
  EntryHold& operator=(EntryHold&& other) = delete;
  ~EntryHold();

  bool holds() const { return folder_ || file_.is_open(); }  // false: there was nothing to lock
  // Writes the owner's file of an entry, as the engine does while it holds the lock. A failure is
  // ignored: on a full disk, where a prune makes room, the lock is still needed.
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
  bool ask_only = false;        // makes nothing, so holds nothing: for a dry run
};
// Locks an entry; nullopt: somebody works on it. In a libneuronxla tree its folder is locked, if it
// exists; in the others the file that their own processes lock (vllm-neuron:
// .<key>.compilation_metadata.lock, with the owner's file next to it; torch-neuronx: <key>.lock),
// which is made where its folder exists.
Result<std::optional<EntryHold>> HoldEntry(const FoundTree& tree, const std::string& name,
                                           const HoldOptions& options);
// HoldEntry for the lock of a kernel, by the path of nki/<key>.json.
Result<std::optional<EntryHold>> HoldKernel(const std::string& path, bool ask_only = false);
// HoldEntry for the lock file at `path`.
Result<std::optional<EntryHold>> HoldLockFile(const std::string& path);
// Removes a lock file that nobody holds or has open.
Status RemoveIdleLock(const std::string& path);

// Moves a locked entry out of sight. Returns the path of its trash, to be removed once the lock is
// released; "" when nothing is left of it.
Result<std::string> MoveAway(const FoundTree& tree, const std::string& name);

// Moves the folder at `path` out of a libneuronxla tree, and removes the trash.
Status DiscardFromCache(const std::string& root, const std::string& path);

}  // namespace nxdkit::neff
