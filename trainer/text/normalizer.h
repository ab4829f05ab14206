// What is done to a text before it is cut into words.
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::trainer {

// Thread-safe once made.
class Normalizer {
 public:
  // The value of "normalizer": NFC, Prepend and Replace of a text, each alone or in a Sequence;
  // nullptr: nothing. kUnsupported for anything else.
  static Result<Normalizer> FromJson(const Json* json);

  bool empty() const { return steps_.empty(); }
  // Whether what stands first afterwards may not be what stood first: Prepend, and Replace of
  // anything but one character by something.
  bool MovesBeginning() const;
  // Of UTF-8. kLimit when it grows over 2 GiB.
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

// Every `pattern`, from the front, not overlapping; "" is nowhere.
std::string ReplacedAll(std::string_view text, std::string_view pattern, std::string_view content);

// The "content" of {"pattern": {"String": "..."}, "content": "..."}, and its pattern: of a
// normalizer or a decoder. kUnsupported for a Regex.
struct Replacement {
  std::string pattern, content;
};
Result<Replacement> ReadReplacement(const Json& json, std::string_view member);

}  // namespace nxdkit::trainer
