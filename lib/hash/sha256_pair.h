// PRIVATE: SHA-256 of two messages at once. The SHA instructions of a processor wait for the result
// of the one before: a second, independent message fills the gaps, and doubles what a core hashes.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "lib/hash/digest.h"

namespace nxdkit {

// SHA-256(mark | a) and SHA-256(mark | b); as fast as it can be when both are of one length.
// By the processor's own instructions, where it has them, else by OpenSSL, one after the other.
std::array<Sha256Bytes, 2> Sha256Pair(std::byte mark, std::span<const std::byte> a,
                                      std::span<const std::byte> b);

}  // namespace nxdkit
