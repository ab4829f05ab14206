// A delta: the elements in which the weights of one model, the result, differ from those of
// another, the base. It is defined on parameters, not on stored tensors: one delta serves every
// layout. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "formats/delta/block.h"
#include "lib/hash/digest.h"
#include "lib/system/file.h"

namespace nxdkit::delta {

struct Param {
  std::string name;
  Dtype dtype = Dtype::kF32;
  Shape shape;
  uint64_t changed = 0;  // elements, as counted by the writer
  Sha256Bytes base{};    // TreeRoot of its bytes, lib/hash/tree_digest.h
  Sha256Bytes result{};

  uint64_t elements() const;  // of a validated shape
  uint64_t bytes() const;
  uint64_t blocks() const;
  uint64_t block_elements(uint64_t block) const;
};

struct Head {
  Coding coding = Coding::kRaw;
  Sha256Bytes base{};  // digest of the base model
  Sha256Bytes result{};
  std::vector<Param> params;
};

Result<bool> LooksLikeDelta(const std::string& path);  // By the first bytes only.

// An opened delta. Thread-safe.
class Delta {
 public:
  // Checks everything but the blocks' contents. kCorrupt, kUnsupported with the offset, found and
  // expected.
  static Result<std::shared_ptr<const Delta>> Open(const std::string& path);

  const std::string& path() const { return file_.path(); }
  const Head& head() const { return head_; }
  uint64_t file_bytes() const { return file_.bytes(); }
  uint64_t payload_bytes() const { return payload_bytes_; }

  // The changes in a block of a parameter; none when it is not in the delta. Errors name the
  // parameter and the offset in the file.
  Status Read(size_t param, uint64_t block, BlockDecoder& decoder, Changes& changes) const;

 private:
  struct Block {
    uint64_t offset;  // in the file
    uint32_t bytes;
    uint32_t crc;
  };
  Delta() = default;
  Status ReadHead();
  Status ReadTable(std::span<const std::byte> table, uint64_t at);

  File file_;
  Head head_;
  uint64_t payload_bytes_ = 0;
  std::vector<uint64_t> first_block_;  // per parameter
  std::vector<Block> blocks_;
};

}  // namespace nxdkit::delta
