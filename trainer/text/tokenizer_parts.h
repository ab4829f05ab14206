// The parts of tokenizer.json that are not the model: added tokens, normalizer, post-processor,
// decoder.
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/added_tokens.h"

namespace nxdkit::trainer {

// The value of "added_tokens"; null is none.
Result<std::vector<AddedToken>> ReadAddedTokens(const Json* json);

// The value of "normalizer": whether text is brought to NFC. kUnsupported for anything else.
Result<bool> ReadNormalizer(const Json* json);

// What a post-processor puts before and after the ids of a single text.
struct Surroundings {
  std::vector<int32_t> before;
  std::vector<int32_t> after;
};
Result<Surroundings> ReadPostProcessor(const Json* json);

// The value of "decoder": ByteLevel, alone or in a Sequence with Fuse. kUnsupported otherwise.
Status CheckDecoder(const Json* json);

}  // namespace nxdkit::trainer
