// The shard files that lie directly in a folder, told by their names.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "formats/nxd/shard_set.h"

namespace nxdkit::nxd {

struct ShardsFound {
  std::vector<ShardFile> files;  // in the order of their names
  std::set<SetStyle> styles;
};

// Empty when the folder cannot be listed or holds an optimizer. Files of data parallel ranks above
// 0 are copies, and left out.
ShardsFound ShardsIn(const std::string& folder);

// The files of an optimizer's state in `folder` (optim/ of a tag), of every rank, in the order of
// their names.
struct OptimizerFile {
  ShardFile file;
  int dp = 0;
};
std::vector<OptimizerFile> OptimizerFilesIn(const std::string& folder);

bool IsV2(SetStyle style);

// The style of the whole set; kCorrupt when files of several styles lie together. In v2 a rank may
// have all its tensors inside and another none.
Result<SetStyle> OneStyle(const std::set<SetStyle>& styles, const std::string& folder);

}  // namespace nxdkit::nxd
