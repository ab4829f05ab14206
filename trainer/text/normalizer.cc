#include "trainer/text/normalizer.h"

#include <algorithm>

#include "lib/base/errors.h"
#include "trainer/base/characters.h"
#include "trainer/text/nfc.h"
#include "trainer/text/step_list.h"

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxNormalized = size_t{1} << 31;
constexpr size_t kMaxReplacement = 256;  // maximum number of bytes that one match becomes

}  // namespace

Result<Replacement> ReadReplacement(const Json& json, std::string_view member) {
  const Json* pattern = JsonFind(json, "pattern");
  if (pattern == nullptr || JsonFind(*pattern, "String") == nullptr)
    return Error(Errc::kUnsupported, "Replace by a pattern that is not a String").member(member);
  Replacement replacement;
  NXDKIT_ASSIGN(replacement.pattern, JsonString(*pattern, "String"));
  NXDKIT_ASSIGN(replacement.content, JsonString(json, "content"));
  if (replacement.content.size() <= kMaxReplacement) return replacement;
  return Unsupported("Replace by {} bytes, over the limit of {}", replacement.content.size(),
                     kMaxReplacement)
      .member(member);
}

std::string ReplacedAll(std::string_view text, std::string_view pattern, std::string_view content) {
  std::string out;
  out.reserve(text.size());
  size_t done = 0;
  for (size_t at = pattern.empty() ? text.npos : text.find(pattern); at != text.npos;
       at = text.find(pattern, done)) {
    out.append(text, done, at - done).append(content);
    done = at + pattern.size();
  }
  return out.append(text, done);
}

Result<Normalizer::Step> Normalizer::ReadStep(std::string_view type, const Json& json) {
  if (type == "NFC") return Step{Kind::kNfc, "", ""};
  if (type == "Prepend") {
    NXDKIT_ASSIGN(std::string prefix, JsonString(json, "prepend"));
    return Step{Kind::kPrepend, "", std::move(prefix)};
  }
  NXDKIT_ASSIGN(Replacement replacement, ReadReplacement(json, "normalizer"));
  return Step{Kind::kReplace, std::move(replacement.pattern), std::move(replacement.content)};
}

Result<Normalizer> Normalizer::FromJson(const Json* json) {
  const StepList part = {"normalizer",
                         "normalizers",
                         {"NFC", "Prepend", "Replace"},
                         "null, NFC, Prepend, Replace or a flat Sequence"};
  Normalizer made;
  const auto read = [&](std::string_view type, const Json& step) -> Status {
    NXDKIT_ASSIGN(Step one, ReadStep(type, step));
    made.steps_.push_back(std::move(one));
    return OkStatus();
  };
  if (json != nullptr) NXDKIT_TRY(ForEachStep(*json, part, read));
  return made;
}

bool Normalizer::MovesBeginning() const {
  return std::ranges::any_of(steps_, [](const Step& step) {
    return step.kind == Kind::kPrepend ||
           (step.kind == Kind::kReplace && (CountChars(step.pattern) != 1 || step.content.empty()));
  });
}

Result<std::string> Normalizer::Apply(std::string_view text) const {
  std::string now(text);
  for (const Step& step : steps_) {
    if (now.size() > kMaxNormalized / kMaxReplacement && step.kind == Kind::kReplace)
      return OverLimit("a text of {} bytes is too long for a replacement", now.size());
    if (step.kind == Kind::kNfc)
      NXDKIT_TRY(ToNfc(now).To(now));
    else if (step.kind == Kind::kReplace)
      now = ReplacedAll(now, step.pattern, step.content);
    else if (!now.empty())
      now.insert(0, step.content);
  }
  return now;
}

}  // namespace nxdkit::trainer
