// Memory for reading and writing files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>

namespace nxdkit {

inline constexpr uint64_t kPageBytes = 4096;

// Starts at a page boundary: copies between the page cache and memory are up to four times slower
// if both addresses are almost equal modulo a page (CopiesSlowly), and blocks of malloc begin 16
// bytes past a page. Neither initialised nor touched before use: memory that is never needed costs
// nothing. Move-only.
class PageBuffer {
 public:
  PageBuffer() = default;
  explicit PageBuffer(uint64_t bytes)  // throws std::bad_alloc
      : memory_(static_cast<std::byte*>(::operator new[](bytes, kAlignment))), bytes_(bytes) {}

  std::span<std::byte> span() const { return {memory_.get(), bytes_}; }
  // `bytes` bytes of it, at the same place within a page as `offset` in a file: copies between the
  // two are never slow. Needs up to a page more.
  std::span<std::byte> InStep(uint64_t offset, uint64_t bytes) const {
    return span().subspan(offset % kPageBytes, bytes);
  }
  // Makes room for `bytes`; the contents are lost.
  std::span<std::byte> AtLeast(uint64_t bytes) {
    if (bytes > bytes_) *this = PageBuffer(bytes);
    return span().first(bytes);
  }

 private:
  static constexpr std::align_val_t kAlignment{kPageBytes};
  struct Free {
    void operator()(std::byte* memory) const { ::operator delete[](memory, kAlignment); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  uint64_t bytes_ = 0;
};

// Whether a read from `offset` of a file to `to` is such a slow copy: `rep movsb`, which the kernel
// uses, falls back to small steps on AMD's Zen if the destination is less than 32 bytes after the
// source modulo 4096 (measured on Zen 4: 6 instead of 28 GB/s below 16 bytes, half below 32).
inline bool CopiesSlowly(uint64_t offset, const std::byte* to) {
  const uint64_t ahead = (reinterpret_cast<uintptr_t>(to) - offset) % kPageBytes;
  return ahead > 0 && ahead < 32;
}

}  // namespace nxdkit
