#include "formats/compile_cache/kernel_config.h"

#include <algorithm>
#include <array>
#include <utility>

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
constexpr size_t kLeastConfigBytes = 40;             // of {"klir_binary":{"binary":""}}, 29 bytes
constexpr size_t kMostKernels = 1'000'000;

using GraphPoll = std::function<Status()>;

// nullptr when the keys do not lead to a string.
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

// A configuration's text and its JSON.
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

// Whether base64 of this alignment contains the words of a kernel's configuration, piece by piece.
bool HoldsConfig(std::string_view run) {
  constexpr std::string_view kWords = "\"klir_binary\"";
  constexpr size_t kPiece = size_t{64} << 10;
  constexpr size_t kOverlap = 24;  // longer than the words
  for (size_t at = 0; at + 4 <= run.size(); at += kPiece - kOverlap) {
    const std::string_view piece = run.substr(at, kPiece);
    const std::optional<std::string> text = ParseBase64(piece.substr(0, piece.size() / 4 * 4));
    if (text && text->find(kWords) != std::string::npos) return true;
  }
  return false;
}

// Where a kernel's configuration seems to begin; npos if nowhere. Every run of base64 is read once
// for each of the four alignments, because the bytes before a configuration may look like base64
// too.
Result<size_t> FindConfigIn(std::string_view text, const GraphPoll& poll) {
  size_t at = text.find(kBase64OfObject);
  while (at != std::string_view::npos) {
    if (poll) NXDKIT_TRY(poll());
    size_t end = at;
    while (end < text.size() && IsBase64(text[end])) ++end;
    const std::string_view run = text.substr(at, end - at);
    std::array<bool, 4> seen{};
    for (size_t i = 0; i != std::string_view::npos; i = run.find(kBase64OfObject, i + 1)) {
      if (std::exchange(seen[i % seen.size()], true)) continue;
      if (HoldsConfig(run.substr(i))) return at + i;
      if (std::ranges::all_of(seen, [](bool each) { return each; })) break;
    }
    at = text.find(kBase64OfObject, end);
  }
  return std::string_view::npos;
}

// The kernels' configurations in a graph, with their binaries. An error for one in another place,
// or one that is not completely what it begins like.
struct FoundKernels {
  std::vector<GraphKernel> kernels;
  std::vector<size_t> ends;  // of the configurations, by kernel
};
Result<FoundKernels> KernelsIn(std::string_view graph, const GraphPoll& poll) {
  FoundKernels found;
  const ReplaceConfig note =
      [&](const BackendConfig& config) -> Result<std::optional<std::string>> {
    if (config.text.size() < kLeastConfigBytes) return std::optional<std::string>();
    std::optional<std::string> binary = BinaryOfConfig(config.text);
    if (!binary && config.text.starts_with(kBase64OfObject)) {
      NXDKIT_ASSIGN(const size_t at, FindConfigIn(config.text, poll));
      if (at == 0)
        return Unsupported(
                   "a backend_config of {} bytes begins like a kernel's configuration, but is not "
                   "one",
                   config.text.size())
            .at(config.offset);
    }
    if (!binary) return std::optional<std::string>();
    if (found.kernels.size() == kMostKernels)
      return Unsupported("more than {} kernels", kMostKernels).at(config.offset);
    found.kernels.push_back({config.offset, *std::move(binary)});
    found.ends.push_back(config.offset + config.text.size());
    return std::optional<std::string>();
  };
  NXDKIT_TRY(ReplaceBackendConfigs(graph, note, poll));
  return found;
}

// A configuration outside the known places is an error.
Status CheckNoOthers(std::string_view graph, const FoundKernels& found, const GraphPoll& poll) {
  size_t begin = 0;
  for (size_t i = 0; i <= found.kernels.size(); ++i) {
    const size_t end = i < found.kernels.size() ? found.kernels[i].offset : graph.size();
    NXDKIT_ASSIGN(const size_t at, FindConfigIn(graph.substr(begin, end - begin), poll));
    if (at != std::string_view::npos)
      return Unsupported("a kernel's configuration is outside a backend_config").at(begin + at);
    if (i < found.kernels.size()) begin = found.ends[i];
  }
  return OkStatus();
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
  // The same string may also occur elsewhere: the right one gives the wanted JSON.
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
  if (!config) return Corrupt("{} bytes are not a kernel's configuration", base64.size());
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

Result<std::vector<GraphKernel>> KernelsOfGraph(std::string_view graph, const GraphPoll& poll) {
  NXDKIT_ASSIGN(FoundKernels found, KernelsIn(graph, poll));
  NXDKIT_TRY(CheckNoOthers(graph, found, poll));
  return std::move(found.kernels);
}

Result<std::optional<std::string>> GraphWithBinaries(std::string_view graph, const MapBinary& map,
                                                     const GraphPoll& poll) {
  NXDKIT_TRY(KernelsOfGraph(graph, poll));
  return ReplaceBackendConfigs(
      graph,
      [&](const BackendConfig& config) -> Result<std::optional<std::string>> {
        const std::optional<std::string> binary = BinaryOfConfig(config.text);
        if (binary && poll) NXDKIT_TRY(poll());
        const std::optional<std::string> other = binary ? map(*binary) : std::nullopt;
        if (!other || *other == *binary) return std::optional<std::string>();
        Result<std::string> changed = ConfigWithBinary(config.text, *other);
        if (!changed.ok()) return std::move(changed).error().at(config.offset);
        return std::optional<std::string>(*std::move(changed));
      },
      poll);
}

}  // namespace nxdkit::neff
