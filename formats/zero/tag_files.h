// The files of one save of DeepSpeed's engine, a folder that it calls a tag: "global_step20".
// Beside the tags lies `latest`, a text with the name of one. Format facts: FORMAT.md beside this
// file.
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
inline constexpr char kUniversalFolder[] = "zero";  // in a tag that ds_to_universal has made

struct TagFiles {
  std::string path;
  std::map<int, std::string> models;      // names by rank; 0 alone below stage 3
  std::map<int, std::string> optimizers;  // by rank
  bool per_rank = false;                  // models are those of stage 3
  bool universal = false;
};

// Whether a file of this name is one of several ranks', and nothing by itself.
bool IsRankFile(std::string_view name);

// Whether the folder is a tag, or has one in it.
Result<bool> HasTags(const std::string& path, const Looker& look);

struct FoundTag {
  std::string path;
  std::optional<Choice> choice;
  std::vector<std::string> warnings;
};
// The tag that `asked` names ("20" is global_step20), else `path` itself where it is one, else that
// of `latest`, else the newest by number. kNotFound, naming those that are there, for another one.
Result<FoundTag> FindTag(const std::string& path, std::optional<std::string> asked,
                         const Looker& look);

// kUnsupported, by name, for files of experts, of pipeline stages, of tensor parallel ranks and
// for what was offloaded; kNotFound for a tag without a model's file.
Result<TagFiles> ListTag(const std::string& path, const Looker& look);

// kNotFound naming the ranks of 0 to world - 1 that have no file in `files`. A warning for files
// of further ranks, which are another run's.
Status CheckRanks(const std::map<int, std::string>& files, int64_t world, std::string_view what,
                  std::vector<std::string>& warnings);

}  // namespace nxdkit::zero
