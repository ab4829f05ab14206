#include <fmt/core.h>

#include <algorithm>

#include "formats/manifest/manifest.h"

namespace nxdkit::manifest {
namespace {

constexpr std::string_view kDigestPrefix = "sha256:";
// What a digest of this kind begins with: no other text that is hashed here does.
constexpr std::string_view kModelHeading = "nxdkit-model-digest 1\n";

std::span<const std::byte> BytesOf(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// Lower case only: two spellings of one digest would be two texts.
int HexValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

std::string ParamLine(const ParamDigest& param) {
  std::string dims;
  for (const int64_t dim : param.shape) dims += fmt::format("{}{}", dims.empty() ? "" : ",", dim);
  return fmt::format("{} {} [{}] {}:{}\n", HexText(param.root), Name(param.dtype), dims,
                     param.name.size(), param.name);
}

ModelDigest MakeModelDigest(std::vector<ParamDigest> params) {
  ModelDigest model;
  model.params = std::move(params);
  std::ranges::sort(model.params, {}, &ParamDigest::name);
  Sha256 sha;
  sha.Update(BytesOf(kModelHeading));
  for (const ParamDigest& param : model.params) sha.Update(BytesOf(ParamLine(param)));
  model.digest = sha.Finish();
  return model;
}

std::string DigestText(const Sha256Bytes& digest) {
  return std::string(kDigestPrefix) + HexText(digest);
}

Result<Sha256Bytes> ParseDigest(std::string_view text) {
  const auto wrong = [&] {
    return Error(Errc::kCorrupt,
                 fmt::format("found \"{}\", expected sha256: and 64 lower-case hexadecimal digits",
                             text.substr(0, 80)));
  };
  if (!text.starts_with(kDigestPrefix)) return wrong();
  const std::string_view digits = text.substr(kDigestPrefix.size());
  Sha256Bytes digest;
  if (digits.size() != 2 * digest.size()) return wrong();
  for (size_t i = 0; i < digest.size(); ++i) {
    const int high = HexValue(digits[2 * i]);
    const int low = HexValue(digits[2 * i + 1]);
    if (high < 0 || low < 0) return wrong();
    digest[i] = static_cast<std::byte>(high * 16 + low);
  }
  return digest;
}

}  // namespace nxdkit::manifest
