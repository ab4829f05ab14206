// The sink that writes nothing: it compares the files that WriteSink would write with those that
// are there, byte for byte.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "lib/plan/executor.h"
#include "lib/sinks/output_files.h"
#include "lib/system/file_cache.h"

namespace nxdkit {

// Every difference is kFindings, with file and offset; the first one ends the run.
class MatchSink : public Sink {
 public:
  // `layout` and `files` as for OutputFiles. Compares the sizes at once.
  static Result<std::unique_ptr<MatchSink>> Begin(const std::string& folder, const Layout& layout,
                                                  std::vector<OutputFile> files);

  Status Take(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes) override;
  // Compares the frames. Call when all tasks are done.
  Status Finish();

 private:
  MatchSink() : cache_(FileCache::Mode::kRead, 128) {}
  Status Match(size_t file, uint64_t offset, std::span<const std::byte> bytes);

  OutputFiles files_;
  FileCache cache_;
  std::mutex mutex_;
};

// kFindings if the file is missing or has another size.
Status MatchFileSize(const std::string& path, uint64_t bytes);
// kFindings, at the first byte that differs, if the file has other contents.
Status MatchFile(const std::string& path, std::span<const std::byte> contents);
Status MatchCopy(const std::string& path, const std::string& original);

}  // namespace nxdkit
