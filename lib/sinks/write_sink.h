// The sink that writes files: chunks go to their place with pwrite, frames (headers, directories)
// last. The work of an interrupted run can be resumed.
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "lib/plan/executor.h"
#include "lib/sinks/output_files.h"
#include "lib/system/file_cache.h"

namespace nxdkit {

class WriteSink : public Sink {
 public:
  // The journal in a folder that is being written; a folder that has it is not a complete output.
  static constexpr char kJournalName[] = ".nxdkit-journal";

  struct Options {
    bool sync = true;  // fsync every file before Finish returns
    int jobs = 1;
    // Identifies source, layout and budget; with it an interrupted run is resumed from the journal
    // in the folder, if the same plan wrote it since the machine was started. Anything else in the
    // folder is removed. Empty: no journal is kept, nothing is removed.
    std::string fingerprint;
  };

  // `layout` and `files` as for OutputFiles. Creates and allocates all files, with their folders.
  // `folder` must exist.
  static Result<std::unique_ptr<WriteSink>> Begin(const std::string& folder, const Layout& layout,
                                                  std::vector<OutputFile> files,
                                                  const Options& options);

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override;
  Status TaskDone(uint64_t task) override;
  bool IsDone(uint64_t task) const override { return done_.contains(task); }
  uint64_t resumed_tasks() const { return done_.size(); }

  // Writes the frames, syncs, and removes the journal. Call when all tasks are done.
  Status Finish();

 private:
  WriteSink() : cache_(FileCache::Mode::kWrite, 128) {}
  Result<bool> FilesAreThere() const;
  Status CreateFiles();
  Status TakeOver();
  void LoadJournal(const std::string& lines);
  Status Journal(const std::string& line);
  Status FinishFile(size_t file);
  Status SyncFile(size_t file);

  std::string folder_;
  Options options_;
  OutputFiles files_;
  FileCache cache_;
  std::mutex mutex_;
  std::set<uint64_t> done_;
  File journal_;
  uint64_t journal_bytes_ = 0;
  uint32_t journal_crc_ = 0;  // of all lines so far
};

}  // namespace nxdkit
