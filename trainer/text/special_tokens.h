// The ids that begin, end and pad a text, from the JSON files next to a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

struct SpecialTokens {
  // The names in tokenizer_config.json, which a chat template may print. Empty: none.
  std::string bos_token;
  std::string eos_token;
  std::optional<int32_t> bos;
  // The ids that end a response: generation_config.json's list, else config.json's, else eos_token.
  // Not empty, without duplicates, in the order of the file.
  std::vector<int32_t> eos_ids;
  // pad_token, else eos_token, else generation_config.json's pad_token_id, else the first of
  // eos_ids.
  int32_t pad = 0;
};

// Reads tokenizer_config.json of `folder`, and generation_config.json and config.json of the
// model's folder, else of `folder`; each may be missing. kCorrupt for ids and tokens that the
// tokenizer does not have, and for added tokens that are in tokenizer_config.json but not in
// tokenizer.json; kNotFound when no end token is set.
Result<SpecialTokens> LoadSpecialTokens(const std::string& folder, const std::string& model,
                                        const Tokenizer& tokenizer);

}  // namespace nxdkit::trainer
