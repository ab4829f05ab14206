// Settings of the added tokens in the files next to tokenizer.json, interpreted like transformers 5
// (tokenization_utils_base.py, PreTrainedTokenizerBase._from_pretrained, and TokenizersBackend).
// PRIVATE header: it uses parsed JSON; include it from .cc files only.
#pragma once

#include <string>
#include <vector>

#include "lib/json/json.h"
#include "trainer/text/added_tokens.h"

namespace nxdkit::trainer {

struct TokenSettings {
  Json config;  // tokenizer_config.json; an empty object if it is missing

  // "" if there is none. From special_tokens_map.json if tokenizer_config.json has no
  // added_tokens_decoder, otherwise from tokenizer_config.json.
  std::string bos, eos, pad;

  // Their flags override those of tokenizer.json; tokens missing there are added, in this order.
  std::vector<AddedToken> rows;     // from added_tokens_decoder, else added_tokens.json; by id
  std::vector<AddedToken> named;    // bos, eos, unk, sep, pad, cls and mask
  std::vector<AddedToken> further;  // additional_special_tokens, extra_special_tokens
  bool has_rows_of_config = false;  // added_tokens_decoder is present
};

// The object in a JSON file; an empty object if the file is missing.
Result<Json> ReadObject(const std::string& folder, const char* name);

// kCorrupt with file and member; kUnsupported for split_special_tokens.
Result<TokenSettings> ReadTokenSettings(const std::string& folder);

// Changes "added_tokens" of a tokenizer.json. Added tokens that it lacks have no id: they get that
// of the vocabulary, or the next one.
void ApplyTokenSettings(const TokenSettings& settings, Json* tokenizer);

}  // namespace nxdkit::trainer
