#include "trainer/text/open_tokenizer.h"

#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxTokenizerFile = uint64_t{128} << 20;
constexpr uint64_t kMaxConfigFile = uint64_t{16} << 20;
constexpr char kMark[] = "\xe2\x96\x81";  // U+2581, SentencePiece's space

// null where there is none, or it is not JSON: who reads it for more says why.
Json FileOf(const std::string& folder, const char* name) {
  const std::string path = JoinPath(folder, name);
  if (KindOf(path) != PathKind::kFile) return nullptr;
  const Result<std::string> text = ReadSmallFile(path, kMaxConfigFile);
  Result<Json> json = text.ok() ? ParseJson(*text) : Result<Json>(text.error());
  return json.ok() ? *std::move(json) : Json();
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
  if (prefix) decoders.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
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
  NXDKIT_ASSIGN(Tokenizer tokenizer, Tokenizer::Open(path));
  if (tokenizer.byte_level()) return tokenizer;
  const Json config = FileOf(folder, "tokenizer_config.json");
  const Json* name = JsonFind(config, "tokenizer_class");
  const bool is_llama =
      name != nullptr && (*name == "LlamaTokenizer" || *name == "LlamaTokenizerFast");
  if (!is_llama) return tokenizer;
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxTokenizerFile));
  NXDKIT_ASSIGN(Json file, ParseJson(text).in(path));
  return Tokenizer::Parse(AsLlamaTokenizer(std::move(file), config).dump()).in(path);
}

}  // namespace nxdkit::trainer
