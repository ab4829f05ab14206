#include "formats/compile_cache/kernel_config.h"

#include <algorithm>

#include "formats/compile_cache/hlo_module.h"
#include "lib/base/errors.h"
#include "lib/hash/base64.h"
#include "lib/json/json.h"

namespace nxdkit::neff {
namespace {

constexpr char kBinaries[] = "klir_binary";
constexpr char kBinary[] = "binary";
constexpr int kMostPlaces = 100;  // tried for one path in a configuration; each reads all of it
constexpr std::string_view kBase64OfObject = "eyJ";  // base64 of {"

// nullptr when the path leads to no string.
Json* StringAt(Json& json, const std::vector<std::string>& keys) {
  Json* at = &json;
  for (const std::string& key : keys) {
    if (!at->is_object()) return nullptr;
    const auto found = at->find(key);
    if (found == at->end()) return nullptr;
    at = &*found;
  }
  return at->is_string() ? at : nullptr;
}

// The JSON of a configuration and its text.
struct KernelJson {
  std::string text;
  Json json;
};
std::optional<KernelJson> ParseConfig(std::string_view base64) {
  if (!base64.starts_with(kBase64OfObject)) return std::nullopt;
  std::optional<std::string> text = ParseBase64(base64);
  if (!text) return std::nullopt;
  Result<Json> json = ParseJson(*text, kLikePython);
  if (!json.ok() || StringAt(*json, {kBinaries, kBinary}) == nullptr) return std::nullopt;
  return KernelJson{*std::move(text), *std::move(json)};
}

bool IsBase64(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '/';
}

// Whether base64 that begins here holds the words of a kernel's configuration. Where it ends is not
// known: what comes behind may look like more of it.
bool LooksLikeConfig(std::string_view from_here) {
  constexpr size_t kMost = size_t{64} << 10;
  size_t end = 0;
  while (end < std::min(from_here.size(), kMost) && IsBase64(from_here[end])) ++end;
  const std::optional<std::string> text = ParseBase64(from_here.substr(0, end / 4 * 4));
  return text && text->find("\"klir_binary\"") != std::string::npos;
}

// A configuration outside of the places that are known is an error.
Status CheckNoOthers(std::string_view graph, const std::vector<BackendConfig>& known) {
  auto next = known.begin();
  for (size_t at = graph.find(kBase64OfObject); at != std::string_view::npos;
       at = graph.find(kBase64OfObject, at + 1)) {
    while (next != known.end() && next->offset + next->text.size() <= at) ++next;
    const bool inside = next != known.end() && next->offset <= at;
    if (inside && (next->offset == at || BinaryOfConfig(next->text))) continue;
    if (LooksLikeConfig(graph.substr(at)))
      return Unsupported("a kernel's configuration stands outside of a backend_config").at(at);
  }
  return OkStatus();
}

Result<std::vector<BackendConfig>> ConfigsOf(std::string_view graph) {
  NXDKIT_ASSIGN(std::vector<BackendConfig> configs, FindBackendConfigs(graph));
  NXDKIT_TRY(CheckNoOthers(graph, configs));
  for (const BackendConfig& config : configs)
    if (!BinaryOfConfig(config.text) && LooksLikeConfig(config.text))
      return Unsupported(
                 "a backend_config of {} bytes begins like a kernel's configuration, and "
                 "is none",
                 config.text.size())
          .at(config.offset);
  return configs;
}

}  // namespace

std::optional<std::string> BinaryOfConfig(std::string_view base64) {
  std::optional<KernelJson> config = ParseConfig(base64);
  if (!config) return std::nullopt;
  return StringAt(config->json, {kBinaries, kBinary})->get<std::string>();
}

Result<std::string> ReplaceJsonString(std::string_view text, const std::vector<std::string>& keys,
                                      const std::string& value) {
  NXDKIT_ASSIGN(Json wanted, ParseJson(text, kLikePython));
  Json* place = StringAt(wanted, keys);
  if (place == nullptr) return Corrupt("there is no string under this key").member(keys.back());
  const std::string before = DumpPython(*place);
  const std::string after = DumpPython(Json(value));
  *place = value;
  // The same string may stand elsewhere too: the right one is that which gives what is wanted.
  size_t at = text.find(before);
  for (int i = 0; i < kMostPlaces && at != std::string_view::npos; ++i) {
    std::string changed(text);
    changed.replace(at, before.size(), after);
    const Result<Json> json = ParseJson(changed, kLikePython);
    if (json.ok() && *json == wanted) return changed;
    at = text.find(before, at + 1);
  }
  return Unsupported("{} is not written as Python's json writes it", before).member(keys.back());
}

Result<std::string> ConfigWithBinary(std::string_view base64, const std::string& binary) {
  const std::optional<KernelJson> config = ParseConfig(base64);
  if (!config) return Corrupt("{} bytes are no configuration of a kernel", base64.size());
  NXDKIT_ASSIGN(const std::string text,
                ReplaceJsonString(config->text, {kBinaries, kBinary}, binary));
  return Base64Text(text);
}

std::string ConfigWithoutBinary(std::string_view base64) {
  std::optional<KernelJson> config = ParseConfig(base64);
  if (!config) return std::string(base64);
  config->json[kBinaries].erase(kBinary);
  return DumpPython(config->json);
}

Result<std::vector<GraphKernel>> KernelsOfGraph(std::string_view graph) {
  NXDKIT_ASSIGN(const std::vector<BackendConfig> configs, ConfigsOf(graph));
  std::vector<GraphKernel> kernels;
  for (const BackendConfig& config : configs)
    if (std::optional<std::string> binary = BinaryOfConfig(config.text))
      kernels.push_back({config.offset, *std::move(binary)});
  return kernels;
}

Result<std::optional<std::string>> GraphWithBinaries(std::string_view graph, const MapBinary& map) {
  NXDKIT_TRY(ConfigsOf(graph));
  return ReplaceBackendConfigs(
      graph, [&](const BackendConfig& config) -> Result<std::optional<std::string>> {
        const std::optional<std::string> binary = BinaryOfConfig(config.text);
        const std::optional<std::string> other = binary ? map(*binary) : std::nullopt;
        if (!other || *other == *binary) return std::optional<std::string>();
        Result<std::string> changed = ConfigWithBinary(config.text, *other);
        if (!changed.ok()) return std::move(changed).error().at(config.offset);
        return std::optional<std::string>(*std::move(changed));
      });
}

}  // namespace nxdkit::neff
