// MD5, which NEFF headers and the names of compile caches are made with. Not for security.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct evp_md_ctx_st;  // OpenSSL's EVP_MD_CTX

namespace nxdkit::neff {

using Md5Bytes = std::array<std::byte, 16>;

// Bytes in, digest out. Move-only. One thread at a time.
class Md5 {
 public:
  Md5();
  void Update(std::span<const std::byte> bytes);
  Md5Bytes Finish();  // the object begins anew

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };
  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

std::string Md5Hex(std::string_view text);

}  // namespace nxdkit::neff
