// Tokens to text.
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::trainer {

// Thread-safe once made.
class TokenDecoder {
 public:
  // The value of "decoder": ByteLevel once, with Fuse or without; or any Sequence of Replace,
  // ByteFallback, Fuse, Strip and Metaspace. kUnsupported for anything else, and for none.
  static Result<TokenDecoder> FromJson(const Json* json);

  // Each step works on the tokens that the one before has left, as in the library.
  std::string Decode(const std::vector<std::string_view>& tokens) const;

 private:
  enum class Kind { kByteLevel, kReplace, kByteFallback, kFuse, kStrip, kMetaspace };
  struct Step {
    Kind kind;
    std::string pattern, content;  // kStrip: what is stripped is `pattern`
    size_t begin = 0, end = 0;     // kStrip: how many at most
    bool drops_first = false;      // kMetaspace: the first token loses its spaces
  };
  static Result<Step> ReadStep(std::string_view type, const Json& json);
  static void Apply(const Step& step, std::vector<std::string>* tokens);

  std::vector<Step> steps_;
};

}  // namespace nxdkit::trainer
