#include "lib/hash/digest.h"

#include <openssl/evp.h>

#include "lib/base/error.h"

namespace nxdkit {

void Sha256::Free::operator()(evp_md_ctx_st* context) const { ::EVP_MD_CTX_free(context); }

// The calls below fail only for want of memory or after a wrong call of ours.
Sha256::Sha256() : context_(::EVP_MD_CTX_new()) {
  NXDKIT_CHECK(context_ != nullptr);
  NXDKIT_CHECK(::EVP_DigestInit_ex(context_.get(), ::EVP_sha256(), nullptr) == 1);
}

void Sha256::Update(std::span<const std::byte> bytes) {
  NXDKIT_CHECK(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

Sha256Bytes Sha256::Finish() {
  Sha256Bytes digest;
  NXDKIT_CHECK(::EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                    nullptr) == 1);
  NXDKIT_CHECK(::EVP_DigestInit_ex(context_.get(), nullptr, nullptr) == 1);
  return digest;
}

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return HexText(sha.Finish());
}

std::string HexText(std::span<const std::byte> bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

}  // namespace nxdkit
