// SHA-256; and MD5, which NEFF headers and the names of compile caches use.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace nxdkit {

using Sha256Bytes = std::array<std::byte, 32>;
using Md5Bytes = std::array<std::byte, 16>;  // not for security

// Bytes in, digest out. Move-only. One thread at a time.
template <typename Bytes>
class Hasher {
 public:
  Hasher();
  void Update(std::span<const std::byte> bytes);
  Bytes Finish();  // the digest of everything so far; the object starts again

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};
using Sha256 = Hasher<Sha256Bytes>;
using Md5 = Hasher<Md5Bytes>;

std::string Sha256Hex(std::span<const std::byte> bytes);
std::string Md5Hex(std::string_view text);

std::string HexText(std::span<const std::byte> bytes);  // lower case, two digits per byte

}  // namespace nxdkit
