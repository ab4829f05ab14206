#include "trainer/text/characters.h"

#include <utf8proc.h>

namespace nxdkit::trainer {
namespace {

struct Range {
  uint32_t first;
  uint32_t last;
};

constexpr Range kWhiteSpace[] = {
    {0x09, 0x0d},     {0x20, 0x20},     {0x85, 0x85},     {0xa0, 0xa0},     {0x1680, 0x1680},
    {0x2000, 0x200a}, {0x2028, 0x2029}, {0x202f, 0x202f}, {0x205f, 0x205f}, {0x3000, 0x3000}};
// Letters in circles and squares are symbols by category, and alphabetic; ZWNJ and ZWJ join.
constexpr Range kWordSymbols[] = {
    {0x200c, 0x200d}, {0x24b6, 0x24e9}, {0x1f130, 0x1f149}, {0x1f150, 0x1f169}, {0x1f170, 0x1f189}};

template <size_t kCount>
bool IsIn(const Range (&ranges)[kCount], uint32_t point) {
  for (const Range& range : ranges)
    if (point >= range.first && point <= range.last) return true;
  return false;
}

}  // namespace

bool IsWhiteSpace(uint32_t point) { return IsIn(kWhiteSpace, point); }

bool IsWordCharacter(uint32_t point) {
  switch (utf8proc_category(static_cast<int32_t>(point))) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC:
      return true;
    default:
      return IsIn(kWordSymbols, point);
  }
}

}  // namespace nxdkit::trainer
