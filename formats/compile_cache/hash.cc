#include "formats/compile_cache/hash.h"

#include <openssl/evp.h>

#include "lib/base/error.h"
#include "lib/hash/digest.h"

namespace nxdkit::neff {

void Md5::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Md5::Md5() : context_(EVP_MD_CTX_new()) {
  NXDKIT_CHECK(context_ != nullptr);
  NXDKIT_CHECK(EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr) == 1);
}

void Md5::Update(std::span<const std::byte> bytes) {
  NXDKIT_CHECK(EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()) == 1);
}

Md5Bytes Md5::Finish() {
  Md5Bytes digest;
  NXDKIT_CHECK(EVP_DigestFinal_ex(context_.get(), reinterpret_cast<unsigned char*>(digest.data()),
                                  nullptr) == 1);
  NXDKIT_CHECK(EVP_DigestInit_ex(context_.get(), EVP_md5(), nullptr) == 1);
  return digest;
}

std::string Md5Hex(std::string_view text) {
  Md5 md5;
  md5.Update(std::as_bytes(std::span(text.data(), text.size())));
  return HexText(md5.Finish());
}

}  // namespace nxdkit::neff
