#include <array>
#include <string_view>

#include "formats/hf/hf.h"
#include "lib/system/folders.h"

namespace nxdkit::hf {
namespace {

// Sorted. Configuration, tokenizer and processor: what a loader reads beside the weights. Not
// licences, cards or code.
constexpr std::array<std::string_view, 26> kSideFiles = {
    "added_tokens.json",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
    "generation_config.json",
    "hf_quant_config.json",
    "merges.txt",
    "normalizer.json",
    "preprocessor_config.json",
    "processor_config.json",
    "quantization_config.json",
    "quantize_config.json",
    "sentencepiece.bpe.model",
    "source.spm",
    "special_tokens_map.json",
    "spiece.model",
    "target.spm",
    "tekken.json",
    "tiktoken.model",
    "tokenizer.json",
    "tokenizer.model",
    "tokenizer_config.json",
    "video_preprocessor_config.json",
    "vocab.bpe",
    "vocab.json",
    "vocab.txt",
};

}  // namespace

std::vector<std::string> SideFiles(const std::string& folder) {
  std::vector<std::string> present;
  for (const std::string_view name : kSideFiles)
    if (KindOf(JoinPath(folder, name)) == PathKind::kFile) present.emplace_back(name);
  return present;
}

}  // namespace nxdkit::hf
