// Base64 with the alphabet of RFC 4648, padded, without line feeds.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace nxdkit {

std::string Base64Text(std::string_view bytes);
// nullopt for anything that Base64Text does not give: other characters, a wrong padding, bits that
// nobody reads.
std::optional<std::string> ParseBase64(std::string_view text);

}  // namespace nxdkit
