// What the files beside tokenizer.json say of its added tokens, as transformers 5 takes it
// (tokenization_utils_base.py, PreTrainedTokenizerBase._from_pretrained, and TokenizersBackend).
// PRIVATE header: it takes parsed JSON; include it from .cc files only.
#pragma once

#include <string>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/added_tokens.h"

namespace nxdkit::trainer {

struct TokenSettings {
  Json config;  // tokenizer_config.json; an empty object when it is not there

  // "" where there is none. From special_tokens_map.json, where tokenizer_config.json has no
  // added_tokens_decoder, and else from tokenizer_config.json.
  std::string bos, eos, pad;

  // Their flags count before those of tokenizer.json; what that file lacks is added, in this order.
  std::vector<AddedToken> rows;     // of added_tokens_decoder, else of added_tokens.json; by id
  std::vector<AddedToken> named;    // bos, eos, unk, sep, pad, cls and mask
  std::vector<AddedToken> further;  // additional_special_tokens, extra_special_tokens
  bool has_rows_of_config = false;  // added_tokens_decoder is there
};

// The object of a JSON file; an empty object when it is not there.
Result<Json> ReadObject(const std::string& folder, const char* name);

// kCorrupt with file and member; kUnsupported for split_special_tokens.
Result<TokenSettings> ReadTokenSettings(const std::string& folder);

// Changes "added_tokens" of a tokenizer.json. Tokens that it lacked have no id: they get the next
// one, or that of the vocabulary.
void ApplyTokenSettings(const TokenSettings& settings, Json* tokenizer);

}  // namespace nxdkit::trainer
