#include "trainer/text/open_tokenizer.h"

#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/system/folders.h"
#include "trainer/text/token_settings.h"
#include "trainer/text/tokenizer_sections.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTokenizerFile = uint64_t{128} << 20;
constexpr char kMark[] = "\xe2\x96\x81";  // U+2581, SentencePiece's space

bool IsLlamaClass(const Json& config) {
  const Json* name = JsonFind(config, "tokenizer_class");
  return name != nullptr && (*name == "LlamaTokenizer" || *name == "LlamaTokenizerFast");
}

bool Says(const Json& json, std::string_view key, bool fallback) {
  const Json* value = JsonFind(json, key);
  return value != nullptr && value->is_boolean() ? value->get<bool>() : fallback;
}

// Source: transformers 5.19, LlamaTokenizer.__init__.
Json AsLlamaTokenizer(Json file, const Json& config) {
  const bool prefix = Says(config, "add_prefix_space", true);
  const bool legacy = Says(config, "legacy", false);
  const char* scheme = !prefix ? "never" : legacy ? "always" : "first";
  file["normalizer"] = nullptr;
  file["pre_tokenizer"] = {
      {"type", "Metaspace"}, {"replacement", kMark}, {"prepend_scheme", scheme}, {"split", false}};
  Json decoders = {
      {{"type", "Replace"}, {"pattern", {{"String", kMark}}}, {"content", " "}},
      {{"type", "ByteFallback"}},
      {{"type", "Fuse"}},
  };
  if (prefix)
    decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1u}, {"stop", 0u}});
  file["decoder"] = {{"type", "Sequence"}, {"decoders", decoders}};
  Json& model = file["model"];
  model["byte_fallback"] = model["fuse_unk"] = true;
  model["ignore_merges"] = false;
  model["unk_token"] = nullptr;
  return file;
}

}  // namespace

Result<Tokenizer> OpenTokenizer(const std::string& folder) {
  const std::string path = JoinPath(folder, "tokenizer.json");
  NXDKIT_ASSIGN(const TokenSettings settings, ReadTokenSettings(folder));
  NXDKIT_ASSIGN(Json file, ReadJsonFile(path, kMaxTokenizerFile));
  if (!file.is_object())
    return Corrupt("found {}, expected an object", JsonTypeText(file)).in(path);
  ApplyTokenSettings(settings, &file);
  NXDKIT_ASSIGN(Tokenizer tokenizer, TokenizerMaker::FromJson(file).in(path));
  if (!IsLlamaClass(settings.config) || tokenizer.byte_level()) return tokenizer;
  return TokenizerMaker::FromJson(AsLlamaTokenizer(std::move(file), settings.config)).in(path);
}

}  // namespace nxdkit::trainer
