// The byte-level alphabet of GPT-2: 256 printable characters, one for each byte, in which
// tokenizer.json writes its tokens ("\u0120the" is " the").
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

// The character of a byte, in UTF-8.
std::string TokenOfByte(uint8_t byte);
std::string TokenOfBytes(std::string_view bytes);

// The bytes of a token; nullopt if a character of it is not in the alphabet.
std::optional<std::string> BytesOfToken(std::string_view token);

// Decodes bytes that may not be UTF-8: every maximal part of a broken sequence becomes one U+FFFD,
// like the Unicode standard (3.9, best practice) and Rust's from_utf8_lossy.
std::string Utf8Lossy(std::string_view bytes);

}  // namespace nxdkit::trainer
