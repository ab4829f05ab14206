// Outputs that appear whole or not at all.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "lib/base/error.h"
#include "lib/system/descriptor.h"

namespace nxdkit {

// A name that cannot be resolved (a loop of links, a name that is too long) is damage in an input;
// in an output it is a fault of the command line: kUsage.
Error AsOutputFault(Error error);

// A folder (or file) built aside as "<output>.partial" and published under its own name by one
// rename. The staging place is locked (where the file system has locks): a second process that
// builds the same output fails with kIo. The staging place is removed on destruction without
// Publish, unless Keep was called. Not thread-safe.
class Staging {
 public:
  struct Options {
    bool replace = false;  // an existing non-empty output may be replaced (--force)
    bool resume = false;   // keep the work of an interrupted run in the staging place
    bool folder = true;    // a folder, else a single file inside a staging folder
    bool sync = true;      // folders and names are on the disk when Publish returns
    bool parents = true;   // make missing parent folders; else they are an error
    // The staging place is "<output>.<mark>.partial": for processes that may build the same output
    // on a file system without locks. Nothing is resumed across marks.
    std::string mark{};
  };
  // kUsage if `output` exists and may not be replaced, or can never be the target of a rename (a
  // mount point, "/"). Missing parent folders are created. A symbolic link is followed.
  static Result<Staging> Begin(const std::string& output, const Options& options);
  // The error that Begin would return for the output as it is now; changes nothing.
  static Status Check(const std::string& output, const Options& options);

  Staging() = default;  // nowhere
  Staging(Staging&& other) noexcept { *this = std::move(other); }
  Staging& operator=(Staging&& other) noexcept;
  ~Staging();

  // Where to build: a folder, or the path of the single file.
  const std::string& path() const { return build_path_; }
  bool resumed() const { return resumed_; }  // an earlier run left work there
  // Keeps the staging place on destruction, for --resume.
  void Keep() { keep_ = true; }
  // Syncs the folders (files are synced by their writers), and renames. With `replace` the old
  // output is exchanged in one step and then removed. Finished work is never thrown away: if the
  // rename fails, the staging place stays, and the hint names it.
  Status Publish();
  // For a folder: only the file `name` in it becomes the output.
  Status PublishOnly(const std::string& name);

 private:
  Status Lock();
  Status Prepare();
  Status CheckOutput() const;
  Status PublishFile();
  Status PublishFolder();
  Status Replace();

  std::string output_;
  std::string staging_;  // "<output>.partial"
  std::string build_path_;
  Options options_;
  bool resumed_ = false;
  bool keep_ = false;
  bool done_ = true;
  Descriptor lock_;
};

// A replaced output is put aside until it is removed, as "OUTPUT.old.<pid>-<inode>.partial"; a
// killed process leaves it there. The base name of the output that `name`, also a base name, was
// put aside for; nullopt for any other name.
std::optional<std::string_view> OutputOfAside(std::string_view name);

}  // namespace nxdkit
