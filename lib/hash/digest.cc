#include "lib/hash/digest.h"

#include <openssl/evp.h>

#include <type_traits>

#include "lib/base/error.h"

namespace nxdkit {

template <typename Bytes>
void Hasher<Bytes>::Free::operator()(evp_md_ctx_st* context) const {
  ::EVP_MD_CTX_free(context);
}

// The calls below fail only when memory runs out or when this code calls them wrongly.
template <typename Bytes>
Hasher<Bytes>::Hasher() : context_(::EVP_MD_CTX_new()) {
  NXDKIT_CHECK(context_ != nullptr);
  const EVP_MD* const type = std::is_same_v<Bytes, Md5Bytes> ? ::EVP_md5() : ::EVP_sha256();
  NXDKIT_CHECK(::EVP_DigestInit_ex(context_.get(), type, nullptr) == 1);
}

template <typename Bytes>
void Hasher<Bytes>::Update(std::span<const std::byte> bytes) {
  NXDKIT_CHECK(::EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

template <typename Bytes>
Bytes Hasher<Bytes>::Finish() {
  Bytes digest;
  NXDKIT_CHECK(::EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                    nullptr) == 1);
  NXDKIT_CHECK(::EVP_DigestInit_ex(context_.get(), nullptr, nullptr) == 1);
  return digest;
}

template class Hasher<Sha256Bytes>;
template class Hasher<Md5Bytes>;

std::string Sha256Hex(std::span<const std::byte> bytes) {
  Sha256 sha;
  sha.Update(bytes);
  return HexText(sha.Finish());
}

std::string Md5Hex(std::string_view text) {
  Md5 md5;
  md5.Update(std::as_bytes(std::span(text)));
  return HexText(md5.Finish());
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
