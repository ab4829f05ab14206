// PRIVATE: the versions of a bundle's weights. `weights` is a symbolic link to one of two or more
// hidden folders beside it, the slots, and a refresh is one rename of that link.
//
//   checkpoint/weights -> .weights.1     what an engine opens, always a whole version
//   checkpoint/.weights.0, .weights.1    slots: the current one, and the one before
//   checkpoint/.weights.lock             held by the process that refreshes
//
// Where all readers are processes of this machine they hold a shared flock on the slot's folder,
// and a refresh overwrites the files of the older slot. On a file system that other machines may
// have mounted every version is written anew, into a slot of a new number, and stays a while after
// it was retired; there a lock only saves work. Protocol and its limits: FORMAT.md.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/folder_lock.h"

namespace nxdkit::rollout {

// What `weights` leads to now, held: it is neither overwritten nor removed while this lives.
struct PinnedWeights {
  // The slot; or `weights` itself while that is a plain folder, and then the first refresh gives it
  // another name: after opening files by this path, ask lock->IsAt(folder).
  std::string folder;
  bool half_done = false;  // a refresh of it was cut short, by a power cut: links lead to no other
  std::shared_ptr<const FolderLock> lock;
};
Result<PinnedWeights> PinWeights(const std::string& weights);
// kCorrupt, for a caller that cannot use half_done.
Error HalfWritten(const std::string& folder);

// Where to read the files of pinned weights: a path that leads to them until the lock goes, also
// when the first refresh has given their folder another name.
std::string PlaceOf(const std::string& folder, const FolderLock& lock);

// Whether a folder is, by the name that all links lead to, a bundle's weights or one of their
// slots: what a refresh may switch or overwrite unless it is pinned.
Result<bool> AreWeights(const std::string& folder);

// The weights of a bundle that is being made, and that nobody reads yet: the folder becomes a slot,
// and a link to it takes its name. Nothing when that is so already.
Status MakeFirstSlot(const std::string& weights);

// A refresh under way. One at a time for a bundle, among all processes, where there are locks; else
// each writes a slot of its own, and the last to publish wins. Not thread-safe.
class SlotUpdate {
 public:
  struct Options {
    std::vector<std::string> files;  // what will be written into the slot
    bool sync = false;               // every step is on the disk before the next
    bool shared = false;             // other machines may read the files: nothing is overwritten
  };
  // Takes a slot that nobody uses (by flock, or by an open file or mapping), or makes one, and
  // marks it as half done. Beside what will be written it then holds copies of what else lies in
  // the current version (foreign_files.h), and nothing of its own. A plain folder `weights` is made
  // a slot first (adoption.h). kIo when another process refreshes the bundle, kUnsupported when the
  // file system cannot do what is needed, or there is too much to copy. `weights` must lead to a
  // folder.
  static Result<std::unique_ptr<SlotUpdate>> Begin(const std::string& weights,
                                                   const Options& options);

  SlotUpdate(const SlotUpdate&) = delete;
  SlotUpdate& operator=(const SlotUpdate&) = delete;
  // Not published: a slot that was made is removed, one that was there stays half done.
  ~SlotUpdate();

  // What Begin would refuse because of other files; changes nothing.
  static Status CheckForeign(const std::string& weights, const Options& options);

  const std::string& path() const { return path_; }
  bool reused() const { return reused_; }  // the files of an older version are overwritten
  // What a user should know of how it went; a sentence each.
  const std::vector<std::string>& notes() const { return notes_; }
  // What the slot holds is whole: makes it current. All files in it must be written (and synced by
  // who wrote them).
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
  std::string current_;  // the slot that weights leads to
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
