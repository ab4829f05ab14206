// The files of an FSDP run's ranks in one folder, as EasyR1, verl and their forks name them:
// model_, optim_ and extra_state_world_size_W_rank_R.pt. Format facts: FORMAT.md.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"
#include "lib/system/looker.h"

namespace nxdkit::fsdp {

enum class FilePart : uint8_t { kModel, kOptimizer, kExtraState };
inline constexpr std::array<std::string_view, 3> kPartNames = {"model", "optim", "extra_state"};
inline constexpr int kMaxWorld = 100'000;

std::string FileName(FilePart part, int world, int rank);  // "model_world_size_8_rank_3.pt"

struct RankFileName {
  FilePart part = FilePart::kModel;
  int world = 0;
  int rank = 0;
};
std::optional<RankFileName> ParseFileName(std::string_view name);

inline constexpr char kFsdpConfigFile[] = "fsdp_config.json";
// The configuration that verl has written next to the files since 0.4.1.
struct FsdpConfig {
  std::optional<int> version;  // FSDP1 or FSDP2
  std::optional<int> world;
};

struct RankSet {
  std::string path;
  int world = 0;
  std::array<std::vector<int>, 3> ranks;  // ranks that have a file, by part, sorted
  std::optional<FsdpConfig> config;
  std::vector<std::string> warnings;

  const std::vector<int>& of(FilePart part) const { return ranks[static_cast<size_t>(part)]; }
  bool IsWhole(FilePart part) const { return of(part).size() == static_cast<size_t>(world); }
};

// Whether there are files with the names of rank files.
Result<bool> HasRankFiles(const std::string& path, const Looker& look);

// Lists the rank files. `world` selects the run, where the folder has files of several. kNotFound
// where there is no file; kCorrupt, listing them, for files of several worlds when `world` is not
// given, and for a rank outside its world.
Result<RankSet> FindRankSet(const std::string& path, const Looker& look, std::optional<int> world);

// kNotFound, naming the ranks without a file of the part, and where these files may be.
Status CheckWhole(const RankSet& set, FilePart part);

// "0 to 3, 7"
std::string RanksText(const std::vector<int>& ranks);

}  // namespace nxdkit::fsdp
