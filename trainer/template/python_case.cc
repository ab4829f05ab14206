#include "trainer/template/python_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer::jinja {
namespace {

struct Expansion {
  uint32_t point;
  const char* upper;
};
// The characters whose upper case is several, in order: the rows of Unicode's SpecialCasing.txt
// without conditions.
constexpr Expansion kExpansions[] = {{0xdf, "SS"},
                                     {0x149, "\u02bcN"},
                                     {0x1f0, "J\u030c"},
                                     {0x390, "\u0399\u0308\u0301"},
                                     {0x3b0, "\u03a5\u0308\u0301"},
                                     {0x587, "\u0535\u0552"},
                                     {0x1e96, "H\u0331"},
                                     {0x1e97, "T\u0308"},
                                     {0x1e98, "W\u030a"},
                                     {0x1e99, "Y\u030a"},
                                     {0x1e9a, "A\u02be"},
                                     {0x1f50, "\u03a5\u0313"},
                                     {0x1f52, "\u03a5\u0313\u0300"},
                                     {0x1f54, "\u03a5\u0313\u0301"},
                                     {0x1f56, "\u03a5\u0313\u0342"},
                                     {0x1f80, "\u1f08\u0399"},
                                     {0x1f81, "\u1f09\u0399"},
                                     {0x1f82, "\u1f0a\u0399"},
                                     {0x1f83, "\u1f0b\u0399"},
                                     {0x1f84, "\u1f0c\u0399"},
                                     {0x1f85, "\u1f0d\u0399"},
                                     {0x1f86, "\u1f0e\u0399"},
                                     {0x1f87, "\u1f0f\u0399"},
                                     {0x1f88, "\u1f08\u0399"},
                                     {0x1f89, "\u1f09\u0399"},
                                     {0x1f8a, "\u1f0a\u0399"},
                                     {0x1f8b, "\u1f0b\u0399"},
                                     {0x1f8c, "\u1f0c\u0399"},
                                     {0x1f8d, "\u1f0d\u0399"},
                                     {0x1f8e, "\u1f0e\u0399"},
                                     {0x1f8f, "\u1f0f\u0399"},
                                     {0x1f90, "\u1f28\u0399"},
                                     {0x1f91, "\u1f29\u0399"},
                                     {0x1f92, "\u1f2a\u0399"},
                                     {0x1f93, "\u1f2b\u0399"},
                                     {0x1f94, "\u1f2c\u0399"},
                                     {0x1f95, "\u1f2d\u0399"},
                                     {0x1f96, "\u1f2e\u0399"},
                                     {0x1f97, "\u1f2f\u0399"},
                                     {0x1f98, "\u1f28\u0399"},
                                     {0x1f99, "\u1f29\u0399"},
                                     {0x1f9a, "\u1f2a\u0399"},
                                     {0x1f9b, "\u1f2b\u0399"},
                                     {0x1f9c, "\u1f2c\u0399"},
                                     {0x1f9d, "\u1f2d\u0399"},
                                     {0x1f9e, "\u1f2e\u0399"},
                                     {0x1f9f, "\u1f2f\u0399"},
                                     {0x1fa0, "\u1f68\u0399"},
                                     {0x1fa1, "\u1f69\u0399"},
                                     {0x1fa2, "\u1f6a\u0399"},
                                     {0x1fa3, "\u1f6b\u0399"},
                                     {0x1fa4, "\u1f6c\u0399"},
                                     {0x1fa5, "\u1f6d\u0399"},
                                     {0x1fa6, "\u1f6e\u0399"},
                                     {0x1fa7, "\u1f6f\u0399"},
                                     {0x1fa8, "\u1f68\u0399"},
                                     {0x1fa9, "\u1f69\u0399"},
                                     {0x1faa, "\u1f6a\u0399"},
                                     {0x1fab, "\u1f6b\u0399"},
                                     {0x1fac, "\u1f6c\u0399"},
                                     {0x1fad, "\u1f6d\u0399"},
                                     {0x1fae, "\u1f6e\u0399"},
                                     {0x1faf, "\u1f6f\u0399"},
                                     {0x1fb2, "\u1fba\u0399"},
                                     {0x1fb3, "\u0391\u0399"},
                                     {0x1fb4, "\u0386\u0399"},
                                     {0x1fb6, "\u0391\u0342"},
                                     {0x1fb7, "\u0391\u0342\u0399"},
                                     {0x1fbc, "\u0391\u0399"},
                                     {0x1fc2, "\u1fca\u0399"},
                                     {0x1fc3, "\u0397\u0399"},
                                     {0x1fc4, "\u0389\u0399"},
                                     {0x1fc6, "\u0397\u0342"},
                                     {0x1fc7, "\u0397\u0342\u0399"},
                                     {0x1fcc, "\u0397\u0399"},
                                     {0x1fd2, "\u0399\u0308\u0300"},
                                     {0x1fd3, "\u0399\u0308\u0301"},
                                     {0x1fd6, "\u0399\u0342"},
                                     {0x1fd7, "\u0399\u0308\u0342"},
                                     {0x1fe2, "\u03a5\u0308\u0300"},
                                     {0x1fe3, "\u03a5\u0308\u0301"},
                                     {0x1fe4, "\u03a1\u0313"},
                                     {0x1fe6, "\u03a5\u0342"},
                                     {0x1fe7, "\u03a5\u0308\u0342"},
                                     {0x1ff2, "\u1ffa\u0399"},
                                     {0x1ff3, "\u03a9\u0399"},
                                     {0x1ff4, "\u038f\u0399"},
                                     {0x1ff6, "\u03a9\u0342"},
                                     {0x1ff7, "\u03a9\u0342\u0399"},
                                     {0x1ffc, "\u03a9\u0399"},
                                     {0xfb00, "FF"},
                                     {0xfb01, "FI"},
                                     {0xfb02, "FL"},
                                     {0xfb03, "FFI"},
                                     {0xfb04, "FFL"},
                                     {0xfb05, "ST"},
                                     {0xfb06, "ST"},
                                     {0xfb13, "\u0544\u0546"},
                                     {0xfb14, "\u0544\u0535"},
                                     {0xfb15, "\u0544\u053b"},
                                     {0xfb16, "\u054e\u0546"},
                                     {0xfb17, "\u0544\u053d"}};

constexpr uint32_t kDottedI = 0x130, kSigma = 0x3a3, kFinalSigma = 0x3c2, kIota = 0x399;
constexpr uint32_t kIotaBelow = 0x345, kApostropheN = 0x149, kCapitalSharpS = 0x1e9e;

const char* UpperExpansion(uint32_t point) {
  const auto* found = std::ranges::lower_bound(kExpansions, point, {}, &Expansion::point);
  return found != std::end(kExpansions) && found->point == point ? found->upper : nullptr;
}

template <typename Map>
std::string MapEach(std::string_view text, const Map& map) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    if (point)
      map(point->value, at, &out);
    else
      out += text[at];
    at += point ? static_cast<size_t>(point->bytes) : 1;
  }
  return out;
}

uint32_t Simple(utf8proc_int32_t (*map)(utf8proc_int32_t), uint32_t point) {
  return static_cast<uint32_t>(map(static_cast<int32_t>(point)));
}

bool IsCased(uint32_t point) {
  return Simple(utf8proc_tolower, point) != point || Simple(utf8proc_toupper, point) != point ||
         utf8proc_category(static_cast<int32_t>(point)) == UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable, less some rare punctuation.
bool IsIgnored(uint32_t point) {
  switch (utf8proc_category(static_cast<int32_t>(point))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return point == '\'' || point == '.' || point == ':' || point == 0xb7 || point == 0x2019;
  }
}

// A letter comes before the sigma at `at`, and none after it.
bool IsFinal(std::string_view text, size_t at) {
  bool follows = false;
  for (size_t before = at; before > 0;) {
    before = CharBegin(text, before - 1);
    const std::optional<CodePoint> point = DecodeUtf8(text, before);
    if (point && IsIgnored(point->value)) continue;
    follows = point && IsCased(point->value);
    break;
  }
  for (at += 2; follows && at < text.size(); at += CharBytes(text, at)) {
    const std::optional<CodePoint> point = DecodeUtf8(text, at);
    if (!point || !IsIgnored(point->value)) return !point || !IsCased(point->value);
  }
  return follows;
}

}  // namespace

std::string PythonLower(std::string_view text) {
  return MapEach(text, [&](uint32_t point, size_t at, std::string* out) {
    const bool ends = point == kSigma && IsFinal(text, at);
    AppendUtf8(ends ? kFinalSigma : Simple(utf8proc_tolower, point), out);
    if (point == kDottedI) *out += "\u0307";
  });
}

std::string PythonUpper(std::string_view text) {
  return MapEach(text, [](uint32_t point, size_t, std::string* out) {
    if (const char* expansion = UpperExpansion(point))
      *out += expansion;
    else
      AppendUtf8(Simple(utf8proc_toupper, point), out);
  });
}

std::string PythonTitle(std::string_view character) {
  return MapEach(character, [](uint32_t point, size_t, std::string* out) {
    const uint32_t title = Simple(utf8proc_totitle, point);
    const char* expansion = UpperExpansion(point);
    // With an upper case of several, the first of them, then the others as small letters.
    if (expansion == nullptr || (title != point && title != kCapitalSharpS))
      return AppendUtf8(title, out);
    const std::string_view upper = expansion;
    const size_t first = CharBytes(upper, 0);
    *out += upper.substr(0, first);
    *out += MapEach(upper.substr(first), [&](uint32_t rest, size_t, std::string* small) {
      AppendUtf8(rest == kIota           ? kIotaBelow
                 : point == kApostropheN ? rest
                                         : Simple(utf8proc_tolower, rest),
                 small);
    });
  });
}

}  // namespace nxdkit::trainer::jinja
