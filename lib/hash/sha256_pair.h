// PRIVATE: SHA-256 of two messages at once. Each SHA instruction waits for the result of the one
// before: a second, independent message fills the gaps, and doubles the bytes that a core hashes.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>

#include "lib/hash/digest.h"

namespace nxdkit {

// SHA-256(mark | a) and SHA-256(mark | b); fastest when both have the same length. Uses the
// processor's SHA instructions if it has them, else OpenSSL, one message after the other.
std::array<Sha256Bytes, 2> Sha256Pair(std::byte mark, std::span<const std::byte> a,
                                      std::span<const std::byte> b);

// The same piece by piece, without a mark, for two messages of the same length. Move-only.
class Sha256Both {
 public:
  Sha256Both();
  ~Sha256Both();
  Sha256Both(Sha256Both&&) noexcept;
  Sha256Both& operator=(Sha256Both&&) noexcept;
  // Pieces of the same size, a multiple of 64 bytes except the last.
  void Update(std::span<const std::byte> a, std::span<const std::byte> b);
  std::array<Sha256Bytes, 2> Finish();  // the object is used up

 private:
  struct Streams;
  std::unique_ptr<Streams> streams_;
};

}  // namespace nxdkit
