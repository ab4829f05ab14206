// Cuts text into words, which the model then takes one by one.
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/regex.h"

namespace nxdkit::trainer {

// Words of one text, in order; views of the text, or of `owned` where something was put before or
// into them.
struct Words {
  std::vector<std::string_view> list;
  std::deque<std::string> owned;
};

// What becomes of the places where a pattern matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The spans that `text` is cut into, empty ones left out.
std::vector<Span> CutAt(const std::vector<Span>& matches, size_t text_bytes, SplitBehavior behavior,
                        bool invert);

// Split, Digits and Metaspace, then perhaps ByteLevel: its mapping to characters is left out,
// because the model works on bytes then. Thread-safe once made.
class PreTokenizer {
 public:
  // The value of "pre_tokenizer"; nullptr: a text is one word. kUnsupported for types it does not
  // know, and for orders of steps other than that.
  static Result<PreTokenizer> FromJson(const Json* json);

  // Whether words are bytes for the model; else they are characters.
  bool byte_level() const { return byte_level_; }

  // Whether the first word of what was given is treated otherwise (Metaspace, "first").
  bool LooksAtBeginning() const;

  // Appends the words of `text` (UTF-8, must outlive them). `first`: nothing stands before it in
  // what was given to the tokenizer. kLimit as Regex::FindAll.
  Status Split(std::string_view text, bool first, Words* words) const;

 private:
  enum class Scheme { kNever, kFirst, kAlways };
  struct Step {
    std::optional<Regex> regex = std::nullopt;  // of none, parts stay whole
    SplitBehavior behavior = SplitBehavior::kIsolated;
    bool invert = false;
    bool prefix_space = false;  // before the split, for a part that begins with none
    std::string space = {};     // Metaspace: what a space becomes, and where one is put before
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
  bool byte_level_ = false;         // seen: nothing may follow
  bool last_prefix_space_ = false;  // of a ByteLevel without regex
};

}  // namespace nxdkit::trainer
