#include "formats/kinds/peft_names.h"

#include <optional>

#include "lib/base/errors.h"

namespace nxdkit::kinds {
namespace {

constexpr std::string_view kPrefix = "base_model.model.";
constexpr std::string_view kWeight = ".weight";

// A module of PEFT in a name: followed by the adapter's name, unless it was removed when the file
// was saved, and `end`.
struct Marker {
  std::string_view text;
  LoraPart part;
  bool embedding;
  std::string_view end;
};
constexpr Marker kMarkers[] = {
    {".lora_A", LoraPart::kA, false, kWeight},
    {".lora_B", LoraPart::kB, false, kWeight},
    {".lora_embedding_A", LoraPart::kA, true, ""},
    {".lora_embedding_B", LoraPart::kB, true, ""},
    {".lora_magnitude_vector", LoraPart::kMagnitude, false, ""},
    {".lora_magnitude_vector", LoraPart::kMagnitude, false, kWeight},
    {".token_adapter.trainable_tokens_delta", LoraPart::kTokens, false, ""},
    {".trainable_tokens_delta", LoraPart::kTokens, false, ""}};

bool IsOneName(std::string_view text) {
  return !text.empty() && text.find('.') == std::string_view::npos;
}

// The adapter's name between the marker and its end; nullopt if the rest does not match.
std::optional<std::string_view> AdapterIn(std::string_view rest, const Marker& marker) {
  if (!rest.ends_with(marker.end)) return std::nullopt;
  rest.remove_suffix(marker.end.size());
  if (rest.empty()) return rest;
  if (rest.front() != '.' || !IsOneName(rest.substr(1))) return std::nullopt;
  // "weight" is not an adapter's name: the row with that end reads it.
  if (rest == kWeight) return std::nullopt;
  return rest.substr(1);
}

// Removes ".PART" if it is a module of the name.
bool Remove(std::string& name, std::string_view part) {
  const size_t at = name.find(std::string(part) + ".");
  if (at == std::string::npos) return false;
  name.erase(at, part.size());
  return true;
}

// Removes the wrapper around the module of a whole parameter. After modules_to_save comes the
// adapter's name, unless it was removed when the file was saved; a block that is saved whole may
// have modules there too.
LoraName WholeName(std::string name) {
  constexpr std::string_view kSaved = ".modules_to_save.";
  LoraName whole;
  if (const size_t at = name.find(kSaved); at != std::string::npos) {
    const size_t below = at + kSaved.size();
    const size_t dot = name.find('.', below);
    const std::string first = name.substr(below, dot - below);
    const bool last = name.find('.', dot + 1) == std::string::npos;
    if (dot != std::string::npos && (last || first == "default")) {
      whole.adapter = first;
      name.erase(below, first.size() + 1);
    }
    name.erase(at, kSaved.size() - 1);
  }
  if (Remove(name, ".original_module")) whole.part = LoraPart::kOriginal;
  whole.beside = Remove(name, ".base_layer");
  whole.target = std::move(name);
  return whole;
}

}  // namespace

Result<LoraName> LoraNameOf(std::string_view stored) {
  std::string name(stored.starts_with(kPrefix) ? stored.substr(kPrefix.size()) : stored);
  for (const Marker& marker : kMarkers) {
    const size_t at = name.rfind(marker.text);
    if (at == std::string::npos) continue;
    const auto adapter = AdapterIn(std::string_view(name).substr(at + marker.text.size()), marker);
    if (adapter)
      return LoraName{marker.part, marker.embedding, false,
                      name.substr(0, at) + std::string(kWeight), std::string(*adapter)};
  }
  if (name.find(".lora_") != std::string::npos)
    return Unsupported(
        "a tensor of an adapter of a kind that this program does not know; it would be lost");
  return WholeName(std::move(name));
}

}  // namespace nxdkit::kinds
