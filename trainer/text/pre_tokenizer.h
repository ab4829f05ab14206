// Cuts text into words, which the model then takes one by one.
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/regex.h"

namespace nxdkit::trainer {

// Words of one text, in order; views of the text, or of `owned` where a space was put before them.
struct Words {
  std::vector<std::string_view> list;
  std::deque<std::string> owned;
};

// What becomes of the places where a pattern matches.
enum class SplitBehavior { kRemoved, kIsolated, kMergedWithPrevious, kMergedWithNext, kContiguous };

// The spans that `text` is cut into, empty ones left out.
std::vector<Span> CutAt(const std::vector<Span>& matches, size_t text_bytes, SplitBehavior behavior,
                        bool invert);

// Split steps, then ByteLevel: its mapping to characters is left out, because the model here works
// on bytes. Thread-safe once made.
class PreTokenizer {
 public:
  // The value of "pre_tokenizer". kUnsupported for types it does not know, and for orders of steps
  // other than that.
  static Result<PreTokenizer> FromJson(const Json& json);

  // Appends the words of `text` (UTF-8, must outlive them). kLimit as Regex::FindAll.
  Status Split(std::string_view text, Words* words) const;

 private:
  struct Step {
    Regex regex;
    SplitBehavior behavior;
    bool invert;
    bool prefix_space;  // before the split, for a part that begins with none
  };

  Status Add(const Json& json, int depth);
  Status AddSplit(const Json& json);
  Status AddByteLevel(const Json& json);

  std::vector<Step> steps_;
  bool byte_level_ = false;         // seen: nothing may follow
  bool last_prefix_space_ = false;  // of a ByteLevel without regex
};

}  // namespace nxdkit::trainer
