#include "lib/system/places.h"

#include <unistd.h>

#include <cerrno>

#include "lib/base/errors.h"
#include "lib/system/folders.h"
#include "lib/system/staging.h"

namespace nxdkit {
namespace {

// Whether `path` is `folder` or inside it. Both are real paths.
bool IsWithin(const std::string& path, const std::string& folder) {
  return path == folder || path.starts_with(folder.ends_with('/') ? folder : folder + "/");
}

// The nearest existing folder above the output, where the rest will be made.
Status CheckFolder(const std::string& real_output) {
  const std::string folder = NearestExisting(ParentPath(real_output));
  NXDKIT_ASSIGN(const bool is_folder, IsFolder(folder));
  if (!is_folder) return BadUsage("this is not a folder, so the output cannot be in it").in(folder);
  if (::access(folder.c_str(), W_OK) != 0)
    return SystemError("write into the folder", errno).in(folder);
  return OkStatus();
}

}  // namespace

Status CheckPlaces(const std::string& output, const std::vector<std::string>& read) {
  if (output.empty()) return BadUsage("the output's name is empty");
  const Result<std::string> real = RealPath(output);
  if (!real.ok()) return AsOutputFault(real.error());
  const std::string& out = *real;
  const std::string staging = out + ".partial";
  for (const std::string& path : read) {
    NXDKIT_ASSIGN(const std::string in, RealPath(path));
    if (in == out) return BadUsage("the output is the input itself").in(output);
    if (IsWithin(in, out))
      return BadUsage("the output would replace the folder that contains the input {}", path)
          .in(output);
    if (IsWithin(in, staging))
      return BadUsage("the output is built in {}, which contains the input {}", staging, path)
          .in(output);
  }
  return CheckFolder(out);
}

Status CheckNotAPart(const std::string& output, const std::string& artifact) {
  if (artifact.empty()) return OkStatus();
  NXDKIT_ASSIGN(const std::string out, RealPath(output));
  NXDKIT_ASSIGN(const std::string folder, RealPath(artifact));
  if (!IsWithin(out, folder) || out == folder) return OkStatus();
  NXDKIT_ASSIGN(const PathKind kind, KindOf(out));
  if (kind == PathKind::kMissing) return OkStatus();
  if (kind == PathKind::kFolder) {
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(out));
    if (names.empty()) return OkStatus();
  }
  return BadUsage("the output would replace a part of the input {}", artifact).in(output);
}

}  // namespace nxdkit
