// PRIVATE: writes deltas.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "formats/delta/delta.h"

namespace nxdkit::delta {

// Writes a delta: blocks come in any order, from any thread, and are put in order in the file.
class Writer {
 public:
  // `head` has the parameters, without counts and digests.
  static Result<std::unique_ptr<Writer>> Create(const std::string& path, const Head& head);

  // Every block exactly once. `bytes` is empty for an unchanged block.
  Status Put(size_t param, uint64_t block, uint64_t changed, std::vector<std::byte> bytes);

  // `head` with all digests; returned with the counts. Makes the file valid.
  Result<Head> Finish(Head head, bool sync);

 private:
  // A block that came before its turn: in memory, or, beyond kMaxEarlyBytes, in a temporary file.
  struct Early {
    std::vector<std::byte> bytes;
    uint64_t spilled_at = 0;
    uint64_t spilled_bytes = 0;
  };
  Writer() = default;
  Status Keep(uint64_t number, std::vector<std::byte> bytes);
  Status WriteNext(std::span<const std::byte> block);
  Status WriteEarly(const Early& early);

  File file_;
  std::vector<uint64_t> first_block_;
  std::vector<uint64_t> changed_;  // per parameter
  std::vector<std::byte> table_;   // of the blocks
  uint64_t block_count_ = 0;
  uint64_t payload_bytes_ = 0;

  std::mutex mutex_;
  uint64_t next_ = 0;  // the next block to write
  std::map<uint64_t, Early> early_;
  uint64_t early_bytes_ = 0;  // in memory
  File spill_;
  uint64_t spill_bytes_ = 0;
};

}  // namespace nxdkit::delta
