// Classes of Unicode characters.
#pragma once

#include <cstdint>

namespace nxdkit::trainer {

// The property White_Space.
bool IsWhiteSpace(uint32_t point);

// \w of Unicode's regular expressions: letters, marks, decimal digits, connectors, joiners.
bool IsWordCharacter(uint32_t point);

}  // namespace nxdkit::trainer
