// The tokenizer of a model's folder.
#pragma once

#include <string>

#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

// tokenizer.json of the folder, as AutoTokenizer of transformers 5 takes it: if
// tokenizer_config.json says LlamaTokenizer or LlamaTokenizerFast and words are characters, that
// class, not the file, determines how spaces are encoded: Metaspace, by `legacy` and
// `add_prefix_space`. (transformers 4 follows the file.) Added tokens and their flags also come
// from tokenizer_config.json and its older companions (token_settings.h).
Result<Tokenizer> OpenTokenizer(const std::string& folder);

}  // namespace nxdkit::trainer
