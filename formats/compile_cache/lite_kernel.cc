#include "formats/compile_cache/lite_kernel.h"

#include <algorithm>

#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr uint64_t kMaxKernelBytes = uint64_t{16} << 20;
constexpr char kConfigKey[] = "dumped_config";
constexpr char kCopyKey[] = "kernel_binary";

// Whether this is a path below nki/, of plain names.
bool StaysInside(std::string_view path) {
  return !path.empty() && std::ranges::all_of(Split(path, '/'), [](std::string_view part) {
    return !part.empty() && part != "." && part != ".." &&
           part.find('\0') == std::string_view::npos;
  });
}

}  // namespace

Result<LiteKernel> ReadLiteKernel(const std::string& path) {
  NXDKIT_ASSIGN(const bool link, IsLink(path));
  if (link) return Corrupt("a link, expected a file").in(path);
  LiteKernel kernel{path, {}, {}, {}, {}, {}};
  NXDKIT_TRY(ReadSmallFile(path, kMaxKernelBytes).To(kernel.text));
  NXDKIT_TRY(ParseJson(kernel.text, kLikePython).To(kernel.json).in(path));
  NXDKIT_ASSIGN(const int64_t schema, JsonInt(kernel.json, "schema_version").in(path));
  if (schema != kKernelSchema)
    return Unsupported("schema_version {} found, {} expected", schema, kKernelSchema)
        .in(path)
        .member("schema_version");
  NXDKIT_TRY(JsonString(kernel.json, kConfigKey).To(kernel.config).in(path));
  const std::optional<std::string> binary = BinaryOfConfig(kernel.config);
  if (!binary)
    return Corrupt("it is not base64 of a JSON object with klir_binary.binary")
        .in(path)
        .member(kConfigKey);
  kernel.binary = *binary;
  if (JsonFind(kernel.json, kCopyKey) == nullptr) return kernel;
  NXDKIT_TRY(JsonString(kernel.json, kCopyKey).To(kernel.copy).in(path));
  if (!StaysInside(kernel.copy))
    return Corrupt("\"{}\" found, a path below the folder of the file expected", kernel.copy)
        .in(path)
        .member(kCopyKey);
  return kernel;
}

Result<std::string> KernelWithBinary(const LiteKernel& kernel, const std::string& binary) {
  NXDKIT_ASSIGN(const std::string config, ConfigWithBinary(kernel.config, binary).in(kernel.path));
  return ReplaceJsonString(kernel.text, {kConfigKey}, config).in(kernel.path);
}

std::string KernelWithoutPaths(const LiteKernel& kernel) {
  Json json = kernel.json;
  json[kConfigKey] = ConfigWithoutBinary(kernel.config);
  json.erase(kCopyKey);
  return DumpPython(json);
}

Result<std::string> FindKernelBinary(const std::string& root, const std::string& binary,
                                     const std::string& copy,
                                     const std::vector<std::string>& folders) {
  std::vector<std::string> places;
  const std::string folder = KernelFolder(root);
  if (!copy.empty()) places.push_back(JoinPath(folder, copy));
  if (binary.starts_with('/')) places.push_back(binary);
  const std::string name = BaseName(binary);
  if (StaysInside(name)) places.push_back(JoinPath(KernelBinaryFolder(root), name));
  std::vector<std::string> allowed = folders;
  allowed.push_back(root);
  for (const std::string& place : places) {
    const Result<PathInfo> info = LookAtLink(place);
    // An impossible name, from a file that nobody vouches for, leads to nothing; nor does a path
    // without permission.
    if (!info.ok() || info->kind != PathKind::kFile) continue;
    NXDKIT_ASSIGN(const std::string real, RealPath(place));
    for (const std::string& each : allowed) {
      if (each.empty()) continue;
      NXDKIT_ASSIGN(const std::string real_folder, RealPath(each));
      if (real.starts_with(real_folder + "/")) return place;
    }
  }
  return std::string();
}

std::string KernelFolder(const std::string& root) { return JoinPath(root, kLiteKernelFolder); }

std::string KernelBinaryFolder(const std::string& root) {
  return JoinPath(KernelFolder(root), kLiteBinaryFolder);
}

std::string KernelLockPath(std::string_view file) {
  if (file.ends_with(kKernelSuffix)) file.remove_suffix(kKernelSuffix.size());
  return std::string(file) + std::string(kLockSuffix);
}

Result<std::vector<std::string>> ListLiteKernels(const std::string& root) {
  NXDKIT_ASSIGN(std::vector<std::string> names, ListIfThere(KernelFolder(root)));
  std::erase_if(names, [](std::string_view name) { return !IsKernelName(name); });
  return names;
}

}  // namespace nxdkit::neff
