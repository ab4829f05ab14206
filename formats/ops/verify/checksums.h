// The checksums that torch archives carry of their own bytes. Nothing else tells a damaged element
// of a weight that is stored once.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "formats/artifact/artifact.h"
#include "formats/artifact/finding.h"
#include "formats/artifact/run.h"
#include "lib/sinks/output_files.h"

namespace nxdkit::ops {

// A torch archive with checksums: a file, or a part of one.
struct ArchiveRange {
  std::string path;
  uint64_t offset = 0;
  std::optional<uint64_t> bytes;  // nullopt: all of the file
};

// Those of the artifact, each once, in order; empty for formats without.
std::vector<ArchiveRange> ArchivesWithChecksums(const Artifact& artifact);

// By file, the CRC-32 of the bytes at a place of it.
using KnownCrcs = std::map<std::string, std::map<uint64_t, uint32_t>>;

// What a comparison reads anyway need not be read again for its checksum: collects the CRC-32 of
// the chunks that it sees.
class SeenCrcs {
 public:
  // `bound` must outlive this; it is the artifact's.
  SeenCrcs(const Artifact& artifact, const BoundLayout& bound);
  // As CompareSink::Seen. Thread-safe.
  void Add(uint32_t tensor, uint64_t offset, std::span<const std::byte> bytes);
  // Of the records that were seen whole.
  KnownCrcs Known() const;

 private:
  const BoundLayout& bound_;
  std::vector<bool> wanted_;  // tensors that are a record, no less and no more
  std::mutex mutex_;
  std::vector<ChunkCrcs> crcs_;  // per tensor
};

// Reads every one of them whole, but for the records whose CRC is known. A record whose bytes are
// not those that were written is a finding.
Result<std::vector<Finding>> CheckChecksums(const Artifact& artifact, const RunOptions& run,
                                            const KnownCrcs& known = {});

}  // namespace nxdkit::ops
