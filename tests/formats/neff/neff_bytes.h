// PRIVATE to tests. NEFFs as bytes: those of testdata, and changed ones.
#pragma once

#include <cstring>
#include <string>

#include "formats/neff/header.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {

inline std::string ToyNeff() { return ReadBytes(NXDKIT_TESTDATA "/neff/toy.neff"); }
inline std::string PlainNeff() { return ReadBytes(NXDKIT_TESTDATA "/neff/plain.neff"); }

// A number of the header, little-endian.
template <typename T>
void Put(std::string& bytes, size_t offset, T value) {
  std::memcpy(bytes.data() + offset, &value, sizeof value);
}

inline std::span<const std::byte> AsBytes(const std::string& text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

}  // namespace nxdkit::testing_util
