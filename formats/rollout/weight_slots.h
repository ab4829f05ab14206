// PRIVATE: the versions of a bundle's weights. `weights` is a symbolic link to one of two or more
// hidden folders next to it, the slots, and a refresh is one rename of that link.
//
// checkpoint/weights -> .weights.1     what an engine opens, always a whole version
// checkpoint/.weights.0, .weights.1    slots: the current one, and the one before
// checkpoint/.weights.lock             held by the process that refreshes
//
// If all readers are processes of this machine they hold a shared flock on the slot's folder, and a
// refresh overwrites the files of the older slot. On a file system that other machines may have
// mounted, every version is newly written into a slot with a new number, and kept for a while after
// it was retired; there a lock only saves work. Protocol and its limits: FORMAT.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::rollout {

// The current target of `weights`, held: it is neither overwritten nor removed during the lifetime
// of this object.
struct PinnedWeights {
  // The slot; or `weights` itself while it is a plain folder, which the first refresh renames:
  // after opening files by this path, call lock->IsAt(folder).
  std::string folder;
  bool half_done = false;  // a power cut interrupted its refresh, and no link leads to another
  std::shared_ptr<const FolderLock> lock;
};
Result<PinnedWeights> PinWeights(const std::string& weights);
// kCorrupt, for callers that cannot use half_done.
Error HalfWritten(const std::string& folder);

// Where to read the files of pinned weights: a path that leads to them as long as the lock is held,
// even after the first refresh has renamed their folder.
std::string PlaceOf(const std::string& folder, const FolderLock& lock);

// Whether a folder, by the name to which all links lead, is a bundle's weights or one of their
// slots: a refresh may switch or overwrite it unless it is pinned.
Result<bool> AreWeights(const std::string& folder);

// For the weights of a bundle that is being made, and that nobody reads yet: the folder becomes a
// slot, and a link to it gets its name. Does nothing if this is already so.
Status MakeFirstSlot(const std::string& weights);

// A refresh in progress. One at a time for a bundle, among all processes, where there are locks;
// otherwise each writes a slot of its own, and the last to publish wins. Not thread-safe.
class SlotUpdate {
 public:
  struct Options {
    std::vector<std::string> files;  // to be written into the slot
    bool sync = false;               // sync every step before the next
    bool shared = false;             // other machines may read the files: overwrite nothing
  };
  // Takes a slot that nobody uses (according to flock, open files and mappings), or makes one, and
  // marks it as half done. In addition to the files to be written it then has copies of the current
  // version's other files (foreign_files.h), and nothing else. A plain folder `weights` is first
  // made a slot (adoption.h). kIo when another process refreshes the bundle, kUnsupported when the
  // file system cannot do this, or there is too much to copy. `weights` must lead to a folder.
  static Result<std::unique_ptr<SlotUpdate>> Begin(const std::string& weights,
                                                   const Options& options);

  SlotUpdate(const SlotUpdate&) = delete;
  SlotUpdate& operator=(const SlotUpdate&) = delete;
  // If not published: a newly made slot is removed, a reused one stays half done.
  ~SlotUpdate();

  // Begin's refusals because of other files; changes nothing.
  static Status CheckForeign(const std::string& weights, const Options& options);

  const std::string& path() const { return path_; }
  bool reused() const { return reused_; }  // overwrites the files of an older version
  // Sentences about the refresh that a user should see.
  const std::vector<std::string>& notes() const { return notes_; }
  // Makes the slot current. All files in it must be written, and synced by their writer.
  Status Publish();

 private:
  SlotUpdate() = default;
  Status TakeWriterLock();
  Status FindCurrent();
  Status AdoptPlainFolder();
  Status Choose();
  Result<bool> Lock(const std::string& slot);
  Result<bool> Take(const std::string& slot);
  Status Make();
  Status Mark();
  Status Clear() const;
  Status CheckNobodyWrites() const;
  void Tidy(const std::string& keep) const;
  Result<std::vector<std::string>> Retired() const;  // paths

  std::string weights_;
  std::string parent_;
  std::string current_;  // the target of `weights`
  std::string path_;
  Options options_;
  bool reused_ = false;
  bool done_ = false;
  std::vector<std::string> notes_;
  File writer_lock_;
  bool writer_lock_is_ours_ = false;
  std::optional<FolderLock> lock_;
};

}  // namespace nxdkit::rollout
