// Names of shard files: how they are made, and which of those that an index names are refused.
#include <fmt/core.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "formats/hf/hf.h"
#include "formats/hf/index.h"

namespace nxdkit::hf {
namespace {

constexpr size_t kMaxNameBytes = 255;  // of a path component on Linux

// "%2e" -> "."; nullopt when there is nothing to decode.
std::optional<std::string> PercentDecoded(std::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const char* const digits = text.data() + i + 1;
    const bool escape = text[i] == '%' && i + 2 < text.size() &&
                        std::from_chars(digits, digits + 2, value, 16).ptr == digits + 2;
    decoded += escape ? static_cast<char>(value) : text[i];
    if (escape) i += 2;
  }
  if (decoded.size() == text.size()) return std::nullopt;
  return decoded;
}

std::string_view ComponentFault(std::string_view name) {
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (name.empty()) return "it is empty";
  if (name == "." || name == "..") return "it names a folder";
  if (name.find('/') != name.npos) return "it has a /";
  if (name.find('\\') != name.npos) return "it has a backslash";
  if (name.size() > 1 && name[1] == ':' && std::isalpha(static_cast<unsigned char>(name[0])))
    return "it starts with a drive letter";
  if (std::ranges::any_of(name, is_control)) return "it has a control character";
  return "";
}

}  // namespace

std::string ShardName(size_t index, size_t count) {
  if (count <= 1) return "model.safetensors";
  return fmt::format("model-{:05d}-of-{:05d}.safetensors", index + 1, count);
}

std::string ShardFileNameFault(std::string_view name, std::string_view extension) {
  if (name.size() > kMaxNameBytes) return fmt::format("it has {} bytes", name.size());
  // Each round is shorter, so this ends.
  for (std::optional<std::string> text(name); text; text = PercentDecoded(*text))
    if (const std::string_view fault = ComponentFault(*text); !fault.empty())
      return *text == name ? std::string(fault)
                           : fmt::format("{} once percent-encoding is undone", fault);
  if (name.size() <= extension.size() || !name.ends_with(extension))
    return fmt::format("it does not end in {}", extension);
  return "";
}

}  // namespace nxdkit::hf
