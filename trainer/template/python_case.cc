#include "trainer/template/python_case.h"

#include <utf8proc.h>

#include <algorithm>
#include <optional>

#include "lib/base/text.h"
#include "lib/base/utf8.h"
#include "trainer/base/characters.h"

namespace nxdkit::trainer::jinja {
namespace {

// The characters whose upper case has several characters, in order: the unconditional rows of
// Unicode's SpecialCasing.txt, except for the vowels from 0x1f80 to 0x1faf.
constexpr std::string_view kExpansions =
    "\u00df=SS \u0149=\u02bcN \u01f0=J\u030c \u0390=\u0399\u0308\u0301 \u03b0=\u03a5\u0308\u0301 "
    "\u0587=\u0535\u0552 \u1e96=H\u0331 \u1e97=T\u0308 \u1e98=W\u030a \u1e99=Y\u030a "
    "\u1e9a=A\u02be \u1f50=\u03a5\u0313 \u1f52=\u03a5\u0313\u0300 \u1f54=\u03a5\u0313\u0301 "
    "\u1f56=\u03a5\u0313\u0342 \u1fb2=\u1fba\u0399 \u1fb3=\u0391\u0399 \u1fb4=\u0386\u0399 "
    "\u1fb6=\u0391\u0342 \u1fb7=\u0391\u0342\u0399 \u1fbc=\u0391\u0399 \u1fc2=\u1fca\u0399 "
    "\u1fc3=\u0397\u0399 \u1fc4=\u0389\u0399 \u1fc6=\u0397\u0342 \u1fc7=\u0397\u0342\u0399 "
    "\u1fcc=\u0397\u0399 \u1fd2=\u0399\u0308\u0300 \u1fd3=\u0399\u0308\u0301 \u1fd6=\u0399\u0342 "
    "\u1fd7=\u0399\u0308\u0342 \u1fe2=\u03a5\u0308\u0300 \u1fe3=\u03a5\u0308\u0301 "
    "\u1fe4=\u03a1\u0313 \u1fe6=\u03a5\u0342 \u1fe7=\u03a5\u0308\u0342 \u1ff2=\u1ffa\u0399 "
    "\u1ff3=\u03a9\u0399 \u1ff4=\u038f\u0399 \u1ff6=\u03a9\u0342 \u1ff7=\u03a9\u0342\u0399 "
    "\u1ffc=\u03a9\u0399 \ufb00=FF \ufb01=FI \ufb02=FL \ufb03=FFI \ufb04=FFL \ufb05=ST \ufb06=ST "
    "\ufb13=\u0544\u0546 \ufb14=\u0544\u0535 \ufb15=\u0544\u053b \ufb16=\u054e\u0546 "
    "\ufb17=\u0544\u053d";

constexpr uint32_t kDottedI = 0x130, kSigma = 0x3a3, kFinalSigma = 0x3c2, kIota = 0x399;
constexpr uint32_t kIotaBelow = 0x345, kApostropheN = 0x149, kCapitalSharpS = 0x1e9e;

// Empty if the upper case is one character.
std::string UpperExpansion(uint32_t point) {
  std::string upper;
  if (point >= 0x1f80 && point < 0x1fb0) {  // of three vowels with iota, eight small, eight capital
    constexpr uint32_t kCapitals[] = {0x1f08, 0x1f28, 0x1f68};
    AppendUtf8(kCapitals[(point - 0x1f80) / 16] + point % 8, &upper);
    AppendUtf8(kIota, &upper);
    return upper;
  }
  static const std::vector<std::string_view> kRows = nxdkit::Split(kExpansions, ' ');
  const auto point_of = [](std::string_view row) { return DecodeUtf8(row, 0)->value; };
  const auto row = std::ranges::lower_bound(kRows, point, {}, point_of);
  if (row != kRows.end() && point_of(*row) == point) upper = row->substr(row->find('=') + 1);
  return upper;
}

uint32_t Simple(utf8proc_int32_t (*map)(utf8proc_int32_t), uint32_t point) {
  return static_cast<uint32_t>(map(static_cast<int32_t>(point)));
}

bool IsCased(uint32_t point) {
  return Simple(utf8proc_tolower, point) != point || Simple(utf8proc_toupper, point) != point ||
         utf8proc_category(static_cast<int32_t>(point)) == UTF8PROC_CATEGORY_LT;
}

// Unicode's Case_Ignorable, without some rare punctuation.
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

// A letter precedes the sigma at `at`, and none follows it.
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
    if (const std::string upper = UpperExpansion(point); !upper.empty())
      *out += upper;
    else
      AppendUtf8(Simple(utf8proc_toupper, point), out);
  });
}

std::string PythonTitle(std::string_view character) {
  return MapEach(character, [](uint32_t point, size_t, std::string* out) {
    const uint32_t title = Simple(utf8proc_totitle, point);
    const std::string upper = UpperExpansion(point);
    // With several characters, the first one is upper case, the others are lower case.
    if (upper.empty() || (title != point && title != kCapitalSharpS)) return AppendUtf8(title, out);
    const size_t first = CharBytes(upper, 0);
    *out += upper.substr(0, first);
    *out += MapEach(std::string_view(upper).substr(first),
                    [&](uint32_t rest, size_t, std::string* small) {
                      AppendUtf8(rest == kIota           ? kIotaBelow
                                 : point == kApostropheN ? rest
                                                         : Simple(utf8proc_tolower, rest),
                                 small);
                    });
  });
}

}  // namespace nxdkit::trainer::jinja
