// The parts of tokenizer.json that stand around the others: added tokens, post-processor.
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <cstdint>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/added_tokens.h"
#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

// The value of "added_tokens"; null is none.
Result<std::vector<AddedToken>> ReadAddedTokens(const Json* json);

// What a post-processor puts before and after the ids of a single text.
struct Surroundings {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};
Result<Surroundings> ReadPostProcessor(const Json* json);

// Tokenizer::Parse, of what has been parsed.
class TokenizerMaker {
 public:
  static Result<Tokenizer> FromJson(const Json& json);
};

}  // namespace nxdkit::trainer
