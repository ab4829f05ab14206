// Which ids begin, end and pad: from the JSON files next to a tokenizer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

struct SpecialTokens {
  // As tokenizer_config.json names them; a chat template may print these. Empty: there is none.
  std::string bos_token;
  std::string eos_token;
  std::optional<int32_t> bos;
  // What ends a response: generation_config.json's list, else config.json's, else eos_token.
  // Not empty, each once, in the order of the file.
  std::vector<int32_t> eos_ids;
  // pad_token, else eos_token, else generation_config.json's pad_token_id, else the first of
  // eos_ids.
  int32_t pad = 0;
};

// Reads tokenizer_config.json of `folder`, and generation_config.json and config.json of the
// model's folder, else of `folder`; each may be missing. kCorrupt for ids and tokens that the
// tokenizer does not have, and for added tokens that tokenizer_config.json has and tokenizer.json
// has not; kNotFound when nothing says what ends.
Result<SpecialTokens> LoadSpecialTokens(const std::string& folder, const std::string& model,
                                        const Tokenizer& tokenizer);

}  // namespace nxdkit::trainer
