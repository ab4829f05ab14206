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

// The bytes a token stands for; nullopt when a character of it is not of the alphabet.
std::optional<std::string> BytesOfToken(std::string_view token);

// Text of bytes that may not be UTF-8: every maximal part of a broken sequence becomes one U+FFFD,
// as the Unicode standard (3.9, best practice) has it, and Rust's from_utf8_lossy.
std::string Utf8Lossy(std::string_view bytes);

}  // namespace nxdkit::trainer
