// Changes to a text before it is cut into words. PRIVATE header: it uses parsed JSON; include it
// from .cc files only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::trainer {

// Thread-safe once loaded.
class Normalizer {
 public:
  // The value of "normalizer": NFC, Prepend and Replace of a text, each alone or in a Sequence;
  // nullptr: none. kUnsupported for anything else.
  static Result<Normalizer> FromJson(const Json* json);

  bool empty() const { return steps_.empty(); }
  // Whether the first character may differ afterwards: with Prepend, and Replace of anything but
  // one character by something.
  bool MovesBeginning() const;
  // `text` must be UTF-8. kLimit when it grows over 2 GiB.
  Result<std::string> Apply(std::string_view text) const;

 private:
  enum class Kind { kNfc, kPrepend, kReplace };
  struct Step {
    Kind kind;
    std::string pattern, content;
  };
  static Result<Step> ReadStep(std::string_view type, const Json& json);

  std::vector<Step> steps_;
};

// Replaces every `pattern`, from the front, not overlapping; "" never matches.
std::string ReplacedAll(std::string_view text, std::string_view pattern, std::string_view content);

// The "content" of {"pattern": {"String": "..."}, "content": "..."}, and its pattern, in a
// normalizer or a decoder. kUnsupported for a Regex.
struct Replacement {
  std::string pattern, content;
};
Result<Replacement> ReadReplacement(const Json& json, std::string_view member);

}  // namespace nxdkit::trainer
