// Cuts text into words, which the model then encodes one by one. PRIVATE header: it uses parsed
// JSON; include it from .cc files only.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/regex.h"

namespace nxdkit::trainer {

// Words of one text, in order; views of the text, or of `owned` if something was added before or
// inside them.
struct Words {
  std::vector<std::string_view> list;
  std::deque<std::string> owned;
};

// The treatment of the matches of a pattern.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The spans into which `text` is cut, without empty ones.
std::vector<Span> CutAt(const std::vector<Span>& matches, size_t text_bytes, SplitBehavior behavior,
                        bool invert);

// Split, Digits and Metaspace, then possibly ByteLevel: its mapping to characters is omitted,
// because the model then works on bytes. Thread-safe once loaded.
class PreTokenizer {
 public:
  // The value of "pre_tokenizer"; nullptr: a text is one word. kUnsupported for unknown types, and
  // for another order of steps.
  static Result<PreTokenizer> FromJson(const Json* json);

  // Whether the model takes words as bytes; otherwise as characters.
  bool byte_level() const { return byte_level_; }

  // Whether the first word of the input is treated differently (Metaspace, "first").
  bool LooksAtBeginning() const;

  // Appends the words of `text` (UTF-8, must outlive them). `first`: it is the beginning of the
  // tokenizer's input. kLimit as Regex::FindAll.
  Status Split(std::string_view text, bool first, Words* words) const;

 private:
  enum class Scheme { kNever, kFirst, kAlways };
  struct Step {
    std::optional<Regex> regex = std::nullopt;  // none: parts stay whole
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
    bool prefix_space = false;  // added before the split to a part that begins with none
    std::string space = {};     // Metaspace: the replacement of a space, also put before some parts
    Scheme scheme = Scheme::kNever;
  };

  Status Add(const Json& json, int depth);
  Status AddSplit(const Json& json);
  Status AddDigits(const Json& json);
  Status AddMetaspace(const Json& json);
  Status AddByteLevel(const Json& json);
  static std::string_view Prepared(const Step& step, std::string_view part, bool first,
                                   Words* words);

  std::vector<Step> steps_;
  bool byte_level_ = false;         // seen: no other step may follow
  bool last_prefix_space_ = false;  // with a ByteLevel without regex
};

}  // namespace nxdkit::trainer
