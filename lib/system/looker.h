// What is at paths, each asked for once: for the time in which one thing is opened. On Lustre and
// S3 every question is a round trip.
//
// HasFile and the lists list their folder, which then answers for every name in it; the others
// answer from a list that is there, and ask lib/system/look.h else. What a listing does not tell (a
// link, a folder that cannot be listed) is asked there too, with its errors. What is made or taken
// away later is not seen. Copies share what they know. One thread.
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
