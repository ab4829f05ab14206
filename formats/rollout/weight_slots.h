// The versions of a bundle's weights. Once refreshed, `weights` is a symbolic link to one of two
// (or more) hidden folders beside it, the slots, and a refresh is one rename of that link.
//
//   checkpoint/weights -> .weights.1     what an engine opens, always a whole version
//   checkpoint/.weights.0, .weights.1    slots: the current one, and the one before
//   checkpoint/.weights.lock             held by the process that refreshes
//
// Readers hold a shared flock on the slot's folder. Protocol and its limits: FORMAT.md.
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
  // another name: who has opened files by this path asks lock->IsAt(folder) afterwards.
  std::string folder;
  bool half_done = false;  // a refresh of it was cut short, by a power cut: links lead to no other
  std::shared_ptr<const FolderLock> lock;
};
Result<PinnedWeights> PinWeights(const std::string& weights);
// kCorrupt, for who cannot do with half_done.
Error HalfWritten(const std::string& folder);

// Where to read the files of pinned weights: a path that leads to them until the lock goes, also
// when the first refresh has given their folder another name.
std::string PlaceOf(const std::string& folder, const FolderLock& lock);

// Whether a folder is, by the name it has behind all links, a bundle's weights or one of their
// slots: what a refresh may switch or overwrite unless it is pinned.
bool AreWeights(const std::string& folder);

// version.json of a slot: which version it holds.
struct WeightsVersion {
  int64_t serial = 0;    // counts the refreshes of the bundle
  std::string label;     // what the user calls it: "step_120"
  std::string source;    // the path it was made from, as given
  std::string digest{};  // of the model, "sha256:..."; "" when nobody computed it
  bool operator==(const WeightsVersion&) const = default;
};
inline constexpr char kVersionName[] = "version.json";
std::string WriteVersion(const WeightsVersion& version);
// kCorrupt, kUnsupported naming the key, found and expected.
Result<WeightsVersion> ParseVersion(std::string_view json_text, const std::string& path);
// nullopt: the folder has none, as weights that were never refreshed.
Result<std::optional<WeightsVersion>> ReadVersion(const std::string& folder);

// A refresh under way. One at a time for a bundle, among all processes. Not thread-safe.
class SlotUpdate {
 public:
  struct Options {
    std::vector<std::string> files;  // what will be written into the slot
    bool sync = false;               // every step is on the disk before the next
  };
  // Takes a slot that nobody uses (by flock, or by an open file or mapping), or makes one, and
  // marks it as half done. Beside what will be written it then holds copies of what else lies in
  // the current version (foreign_files.h), and nothing of its own. kIo when another process
  // refreshes the bundle, kUnsupported when the file system cannot do what is needed, or there is
  // too much to copy. `weights` must lead to a folder.
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
  // What the slot holds is whole: makes it current. All files in it must be written (and synced by
  // who wrote them).
  Status Publish();

 private:
  SlotUpdate() = default;
  Status TakeWriterLock();
  Status FindCurrent();
  Status Recover() const;
  Status Choose();
  Result<bool> Lock(const std::string& slot);
  Result<bool> Take(const std::string& slot);
  Status Make();
  Status Mark();
  Status Clear() const;
  Status Switch();
  void Tidy() const;

  std::string FreeName() const;
  Result<std::vector<std::string>> Retired() const;  // paths

  std::string weights_;
  std::string parent_;
  std::string current_;  // the slot that is current, or was; "" while `weights` is a plain folder
  std::string path_;
  Options options_;
  bool reused_ = false;
  bool done_ = false;
  File writer_lock_;
  bool writer_lock_is_ours_ = false;
  std::optional<FolderLock> lock_;
};

}  // namespace nxdkit::rollout
