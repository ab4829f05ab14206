// Tokens to text. PRIVATE header: it uses parsed JSON; include it from .cc files only.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::trainer {

// Thread-safe once loaded.
class TokenDecoder {
 public:
  // The value of "decoder": ByteLevel once, with or without Fuse; or any Sequence of Replace,
  // ByteFallback, Fuse, Strip and Metaspace. kUnsupported for anything else, and for none.
  static Result<TokenDecoder> FromJson(const Json* json);

  // Each step works on the tokens left by the previous one, as in the library.
  std::string Decode(const std::vector<std::string_view>& tokens) const;

 private:
  enum class Kind { kByteLevel, kReplace, kByteFallback, kFuse, kStrip, kMetaspace };
  struct Step {
    Kind kind;
    std::string pattern, content;  // kStrip: `pattern` is stripped
    size_t begin = 0, end = 0;     // kStrip: the maximum count
    bool drops_first = false;      // kMetaspace: the first token loses its spaces
  };
  static Result<Step> ReadStep(std::string_view type, const Json& json);
  static void Apply(const Step& step, std::vector<std::string>* tokens);

  std::vector<Step> steps_;
};

}  // namespace nxdkit::trainer
