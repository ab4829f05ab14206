#include "lib/hash/base64.h"

#include <openssl/evp.h>

#include "lib/base/checked.h"

namespace nxdkit {

std::string Base64Text(std::string_view bytes) {
  std::string text;
  // A multiple of three bytes at a time, so that only the last piece is padded.
  constexpr size_t kPiece = size_t{3} << 20;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const std::string_view piece = bytes.substr(at, kPiece);
    const size_t start = text.size();
    text.resize(start + (piece.size() + 2) / 3 * 4 + 1);  // EVP_EncodeBlock ends with a NUL
    const int written = EVP_EncodeBlock(reinterpret_cast<unsigned char*>(text.data() + start),
                                        reinterpret_cast<const unsigned char*>(piece.data()),
                                        static_cast<int>(piece.size()));
    text.resize(start + static_cast<size_t>(written));
  }
  return text;
}

std::optional<std::string> ParseBase64(std::string_view text) {
  const std::optional<int> size = CheckedCast<int>(text.size());
  if (text.size() % 4 != 0 || !size) return std::nullopt;
  if (text.empty()) return std::string();
  std::string bytes(text.size() / 4 * 3, '\0');
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()),
                      reinterpret_cast<const unsigned char*>(text.data()), *size) < 0)
    return std::nullopt;
  const size_t last = text.find_last_not_of('=');
  const size_t padding = last == std::string_view::npos ? text.size() : text.size() - last - 1;
  if (padding > 2) return std::nullopt;
  bytes.resize(bytes.size() - padding);
  // EVP_DecodeBlock ignores white space and leftover bits at the end.
  if (Base64Text(bytes) != text) return std::nullopt;
  return bytes;
}

}  // namespace nxdkit
