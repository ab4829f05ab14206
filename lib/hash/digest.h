// SHA-256.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace nxdkit {

using Sha256Bytes = std::array<std::byte, 32>;

// Bytes in, digest out. Move-only. One thread at a time.
class Sha256 {
 public:
  Sha256();
  void Update(std::span<const std::byte> bytes);
  // The digest of everything so far; the object begins anew.
  Sha256Bytes Finish();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Sha256Hex(std::span<const std::byte> bytes);

// Lower-case hexadecimal, two characters per byte.
std::string HexText(std::span<const std::byte> bytes);

}  // namespace nxdkit
