// The files of one save of DeepSpeed's engine, a folder that it calls a tag: "global_step20". Next
// to the tags there is `latest`, a text with the name of one. Format facts: FORMAT.md.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/choice.h"
#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::zero {

inline constexpr char kLatest[] = "latest";
inline constexpr char kLatestUniversal[] = "latest_universal";
inline constexpr int kMostRanks = 1 << 20;
inline constexpr char kUniversalFolder[] = "zero";  // in a tag converted by ds_to_universal

struct TagFiles {
  std::string path;
  std::map<int, std::string> models;      // names by rank; only rank 0 below stage 3
  std::map<int, std::string> optimizers;  // by rank
  bool per_rank = false;                  // models are those of stage 3
  bool universal = false;
};

// Whether the name is that of one of several ranks' files, which means nothing by itself.
bool IsRankFile(std::string_view name);

// Whether the folder is a tag, or contains one.
Result<bool> HasTags(const std::string& path, const Looker& look);

struct FoundTag {
  std::string path;
  std::optional<Choice> choice;
  std::vector<std::string> warnings;
};
// The tag that `asked` names ("20" is global_step20), else `path` itself if it is one, else that of
// `latest`, else the newest by number. kNotFound, naming the existing tags, for any other.
Result<FoundTag> FindTag(const std::string& path, std::optional<std::string> asked,
                         const Looker& look);

// kUnsupported, by name, for files of experts, of pipeline stages, of tensor parallel ranks and for
// offloaded state; kNotFound for a tag without a model file.
Result<TagFiles> ListTag(const std::string& path, const Looker& look);

// kNotFound naming the ranks of 0 to world - 1 that have no file in `files`. A warning for files of
// further ranks, which are another run's.
Status CheckRanks(const std::map<int, std::string>& files, int64_t world, std::string_view what,
                  std::vector<std::string>& warnings);

}  // namespace nxdkit::zero
