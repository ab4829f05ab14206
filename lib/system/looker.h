// The state of paths, each asked for once, while one thing is opened. On Lustre and S3 every
// question is a round trip.
//
// HasFile and the lists list their folder, which then answers for every name in it; the others
// answer from an existing list, or else ask lib/system/look.h. Entries that a listing does not
// settle (a link, a folder that cannot be listed) are asked for there too, with their errors. Later
// changes are not seen. Copies share their answers. One thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/look.h"

namespace nxdkit {

class Looker {
 public:
  Looker();

  Result<PathKind> KindOf(const std::string& path) const;
  Result<bool> IsThere(const std::string& path) const;
  Result<bool> IsFile(const std::string& path) const { return Is(path, PathKind::kFile); }
  Result<bool> IsFolder(const std::string& path) const { return Is(path, PathKind::kFolder); }
  Result<bool> HasFile(const std::string& folder, std::string_view name) const;
  Result<std::vector<std::string>> ListFolder(const std::string& path) const;
  Result<std::vector<std::string>> ListIfThere(const std::string& path) const;

 private:
  Result<bool> Is(const std::string& path, PathKind kind) const;

  struct Seen;
  std::shared_ptr<Seen> seen_;
};

}  // namespace nxdkit
