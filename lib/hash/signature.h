// PRIVATE: Ed25519 signatures (RFC 8032) with keys in PEM files, as `openssl genpkey -algorithm
// ed25519` makes them. A signature is the 64 bytes that `openssl pkeyutl -sign -rawin` gives.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "lib/base/error.h"

namespace nxdkit {

inline constexpr size_t kSignatureBytes = 64;

// `key_path` is a private key (PKCS #8). kCorrupt if it is not a key, kUnsupported if it is another
// kind of key or locked with a passphrase.
Result<std::string> SignEd25519(std::span<const std::byte> message, const std::string& key_path);

// `key_path` is a public key. kFindings if the signature is not by that key over these bytes,
// kCorrupt if it does not have 64 bytes; for the key as above, and kCorrupt for a point of low
// order.
Status VerifyEd25519(std::span<const std::byte> message, const std::string& signature,
                     const std::string& key_path);

}  // namespace nxdkit
