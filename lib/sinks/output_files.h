// The files of one output, and the tensors of a layout in each: shared by the sinks that make and
// compare files.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lib/hash/piecewise_crc32.h"
#include "lib/plan/layout.h"
#include "lib/tensor/output.h"

namespace nxdkit {

// One file to be written; `path` is relative to the output's folder, or "" for the folder path
// itself.
struct OutputFile {
  std::string path;
  std::unique_ptr<FileEncoder> encoder;
};

// Move-only. Adding checksums is not thread-safe.
class OutputFiles {
 public:
  OutputFiles() = default;
  // `layout.tensors[i].file` is an index into `files`; a file's encoder has its tensors in the
  // layout's order.
  OutputFiles(std::string folder, const Layout& layout, std::vector<OutputFile> files);

  size_t size() const { return files_.size(); }
  std::string Path(size_t file) const;
  const FileEncoder& encoder(size_t file) const { return *files_[file].encoder; }

  uint32_t FileOf(uint32_t tensor) const { return places_[tensor].file; }
  const std::string& NameOf(uint32_t tensor) const;
  uint64_t DataOffset(uint32_t tensor) const;  // in its file
  uint32_t tensor_count() const { return static_cast<uint32_t>(places_.size()); }

  // Adds the checksum of some of a tensor's bytes, in any order.
  void AddCrc(uint32_t tensor, uint64_t offset, uint64_t bytes, uint32_t crc) {
    crcs_[tensor].Add(offset, bytes, crc);
  }
  // For FileEncoder::Frame: empty if it needs none. kInternal if bytes were left out.
  Result<std::vector<uint32_t>> Crcs(size_t file) const;

 private:
  struct Place {
    uint32_t file;
    uint32_t index;  // in the encoder
  };

  std::string folder_;
  std::vector<OutputFile> files_;
  std::vector<Place> places_;                   // per layout tensor
  std::vector<std::vector<uint32_t>> members_;  // per file: its layout tensors
  std::vector<PiecewiseCrc32> crcs_;            // per layout tensor
};

}  // namespace nxdkit
