// Parts of tokenizer.json outside the main steps: added tokens, post-processor. PRIVATE header: it
// uses parsed JSON; include it from .cc files only.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/added_tokens.h"
#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

// The value of "added_tokens"; null means none.
Result<std::vector<AddedToken>> ReadAddedTokens(const Json* json);

// The ids that a post-processor puts before and after those of a single text.
struct Surroundings {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};
Result<Surroundings> ReadPostProcessor(const Json* json);

// Tokenizer::Parse for parsed JSON.
class TokenizerMaker {
 public:
  static Result<Tokenizer> FromJson(const Json& json);
};

}  // namespace nxdkit::trainer
