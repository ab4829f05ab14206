// The tokenizer of a model's folder.
#pragma once

#include <string>

#include "trainer/text/tokenizer.h"

namespace nxdkit::trainer {

// tokenizer.json of the folder, as AutoTokenizer of transformers 5 takes it: where
// tokenizer_config.json says LlamaTokenizer or LlamaTokenizerFast and words are characters, that
// class counts for how spaces are written, and not the file: Metaspace, by `legacy` and
// `add_prefix_space`. (transformers 4 goes by the file.) Added tokens, and their flags, are also
// those of tokenizer_config.json and its older companions (token_settings.h).
Result<Tokenizer> OpenTokenizer(const std::string& folder);

}  // namespace nxdkit::trainer
