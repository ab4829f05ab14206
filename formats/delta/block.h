// One block of a delta: the changes in 1 MiB of one parameter. Facts: FORMAT.md.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "lib/tensor/dtype.h"

struct ZSTD_CCtx_s;
struct ZSTD_DCtx_s;

namespace nxdkit::delta {

// Every block except a parameter's last covers this many bytes: a leaf of lib/hash/tree_digest.h.
inline constexpr uint64_t kBlockBytes = 1 << 20;

// How a changed element is stored.
enum class Coding : uint32_t {
  kRaw = 0,  // its new bits: correct whatever the base holds
  kUlp = 1,  // representable values it moved by: smaller, and wrong on another base
};

// Whether elements of this dtype can be compared: they have 1, 2, 4 or 8 bytes.
bool CanEncode(Dtype dtype);

// Decoded: the changed elements of a block, ascending, and the stored form of each.
struct Changes {
  std::vector<uint32_t> at;
  std::vector<uint64_t> values;
};

// Encoder and decoder hold buffers: one per thread.
class BlockEncoder {
 public:
  BlockEncoder();
  // `base` and `result` are the same elements, packed, little-endian; at most kBlockBytes. Returns
  // the number that differ and fills `block`, which is empty if none do.
  Result<uint64_t> Encode(Dtype dtype, Coding coding, std::span<const std::byte> base,
                          std::span<const std::byte> result, std::vector<std::byte>& block);

 private:
  Status Append(std::span<const std::byte> section, size_t size_at, std::vector<std::byte>& block);

  struct Free {
    void operator()(ZSTD_CCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_CCtx_s, Free> context_;
  Changes changes_;
  std::vector<std::byte> section_;
  std::vector<std::byte> packed_;
};

class BlockDecoder {
 public:
  BlockDecoder();
  // `elements`: the number that the block covers. kCorrupt with the offset inside the block.
  Status Decode(Dtype dtype, uint64_t elements, std::span<const std::byte> block, Changes& changes);

 private:
  Status Unpack(std::span<const std::byte> packed, uint64_t at, uint64_t bytes);
  Status ReadGaps(uint64_t elements, uint64_t at, Changes& changes) const;

  struct Free {
    void operator()(ZSTD_DCtx_s* context) const;
  };
  std::unique_ptr<ZSTD_DCtx_s, Free> context_;
  std::vector<std::byte> section_;
};

// Turns base into result, in place: `elements` are those of the block from number `first` on.
void Apply(const Changes& changes, Dtype dtype, Coding coding, uint64_t first,
           std::span<std::byte> elements);

}  // namespace nxdkit::delta
