#include "lib/hash/signature.h"

#include <fmt/core.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <memory>

#include "lib/base/errors.h"
#include "lib/system/file.h"

namespace nxdkit {
namespace {

constexpr uint64_t kMaxKeyBytes = 64 << 10;

struct Free {
  void operator()(BIO* bio) const { ::BIO_free(bio); }
  void operator()(EVP_PKEY* key) const { ::EVP_PKEY_free(key); }
  void operator()(EVP_MD_CTX* context) const { ::EVP_MD_CTX_free(context); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

// Called for the passphrase of a locked key: there is nobody to ask.
int NoPassphrase(char*, int, int, void* asked) {
  *static_cast<bool*>(asked) = true;
  return -1;
}

enum class KeyKind { kPrivate, kPublic };

Result<Owned<EVP_PKEY>> ReadKey(const std::string& path, KeyKind kind) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxKeyBytes));
  const Owned<BIO> bio(::BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
  NXDKIT_CHECK(bio != nullptr);
  bool locked = false;
  const auto read = kind == KeyKind::kPrivate ? ::PEM_read_bio_PrivateKey : ::PEM_read_bio_PUBKEY;
  Owned<EVP_PKEY> key(read(bio.get(), nullptr, NoPassphrase, &locked));
  ::ERR_clear_error();
  const char* what = kind == KeyKind::kPrivate ? "private" : "public";
  if (locked)
    return Unsupported("the key is locked with a passphrase")
        .in(path)
        .hint("openssl pkey -in LOCKED -out KEY writes it without one");
  if (!key) return Corrupt("no {} key in PEM form found", what).in(path);
  if (::EVP_PKEY_base_id(key.get()) != EVP_PKEY_ED25519) {
    const char* name = ::OBJ_nid2sn(::EVP_PKEY_base_id(key.get()));
    return Unsupported("a {} key of kind {} found, expected Ed25519", what, name ? name : "unknown")
        .in(path)
        .hint("openssl genpkey -algorithm ed25519 -out KEY makes one");
  }
  return key;
}

using PublicBytes = std::array<uint8_t, 32>;

// The points whose multiple by 8 is zero, as their y in little endian without the sign of x:
// anybody can sign for such a key, and OpenSSL accepts it. Two of them appear again among the
// values from 2^255 - 19 on, which are decoded modulo that number. From the group's definition in
// RFC 8032, section 5.1.
constexpr PublicBytes kLowOrder[] = {
    {0},
    {1},
    {0x26, 0xe8, 0x95, 0x8f, 0xc2, 0xb2, 0x27, 0xb0, 0x45, 0xc3, 0xf4,
     0x89, 0xf2, 0xef, 0x98, 0xf0, 0xd5, 0xdf, 0xac, 0x05, 0xd3, 0xc6,
     0x33, 0x39, 0xb1, 0x38, 0x02, 0x88, 0x6d, 0x53, 0xfc, 0x05},
    {0xc7, 0x17, 0x6a, 0x70, 0x3d, 0x4d, 0xd8, 0x4f, 0xba, 0x3c, 0x0b,
     0x76, 0x0d, 0x10, 0x67, 0x0f, 0x2a, 0x20, 0x53, 0xfa, 0x2c, 0x39,
     0xcc, 0xc6, 0x4e, 0xc7, 0xfd, 0x77, 0x92, 0xac, 0x03, 0x7a},
    {0xec, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xed, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
    {0xee, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
     0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f},
};

Status RefuseLowOrder(const EVP_PKEY* key, const std::string& path) {
  PublicBytes bytes{};
  size_t size = bytes.size();
  if (::EVP_PKEY_get_raw_public_key(key, bytes.data(), &size) != 1 || size != bytes.size())
    return Error(Errc::kInternal, "OpenSSL does not give the key's bytes").in(path);
  bytes.back() &= 0x7f;
  if (std::ranges::find(kLowOrder, bytes) == std::end(kLowOrder)) return OkStatus();
  return Corrupt("the public key is a point of low order: anybody can sign by it").in(path);
}

const unsigned char* Bytes(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

Result<std::string> SignEd25519(std::span<const std::byte> message, const std::string& key_path) {
  NXDKIT_ASSIGN(const Owned<EVP_PKEY> key, ReadKey(key_path, KeyKind::kPrivate));
  const Owned<EVP_MD_CTX> context(::EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  size_t bytes = signature.size();
  const bool done =
      context && ::EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key.get()) == 1 &&
      ::EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &bytes,
                       Bytes(message), message.size()) == 1;
  ::ERR_clear_error();
  if (!done || bytes != kSignatureBytes)
    return Error(Errc::kInternal, "OpenSSL could not sign").in(key_path);
  return signature;
}

Status VerifyEd25519(std::span<const std::byte> message, const std::string& signature,
                     const std::string& key_path) {
  NXDKIT_ASSIGN(const Owned<EVP_PKEY> key, ReadKey(key_path, KeyKind::kPublic));
  NXDKIT_TRY(RefuseLowOrder(key.get(), key_path));
  if (signature.size() != kSignatureBytes)
    return Corrupt("a signature of {} bytes found, {} expected", signature.size(), kSignatureBytes);
  const Owned<EVP_MD_CTX> context(::EVP_MD_CTX_new());
  if (!context || ::EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key.get()) != 1)
    return Error(Errc::kInternal, "OpenSSL could not take the key").in(key_path);
  const int good =
      ::EVP_DigestVerify(context.get(), reinterpret_cast<const unsigned char*>(signature.data()),
                         signature.size(), Bytes(message), message.size());
  ::ERR_clear_error();
  if (good != 1)
    return Error(Errc::kFindings,
                 fmt::format("the signature is not by the key {} over this text", key_path));
  return OkStatus();
}

}  // namespace nxdkit
