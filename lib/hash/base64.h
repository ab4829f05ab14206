// Base64 with the alphabet of RFC 4648, padded, without line feeds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nxdkit {

std::string Base64Text(std::string_view bytes);
// nullopt for anything that Base64Text does not produce: other characters, wrong padding, leftover
// bits.
std::optional<std::string> ParseBase64(std::string_view text);

}  // namespace nxdkit
