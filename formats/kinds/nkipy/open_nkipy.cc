#include <algorithm>

#include "formats/kinds/nkipy/read_nkipy.h"
#include "formats/kinds/open_file.h"
#include "formats/nkipy/record.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::kinds {
namespace {

constexpr int kMostRanks = 10'000;

// The number of rank files in the folder, which are numbered from 0 without a gap.
Result<int> CountRanks(const std::string& folder, const Looker& look) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, look.ListFolder(folder));
  std::vector<int> ranks;
  for (const std::string& name : names)
    if (const std::optional<int> rank = nkipy::RankOfFile(name)) ranks.push_back(*rank);
  std::ranges::sort(ranks);
  if (ranks.size() > static_cast<size_t>(kMostRanks))
    return OverLimit("{} rank files, the most are {}", ranks.size(), kMostRanks).in(folder);
  for (size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != static_cast<int>(i))
      return NotFound("{} is missing; the last rank is {}",
                      nkipy::ShardFileName(static_cast<int>(i)), ranks.back())
          .in(folder);
  if (ranks.empty())
    return NotFound("no rank files: {} is not there", nkipy::ShardFileName(0)).in(folder);
  return static_cast<int>(ranks.size());
}

// The vendor's script writes no record.
Status HoldAgainstRecord(const Artifact& artifact) {
  const std::string path = JoinPath(artifact.path, nkipy::kRecordName);
  NXDKIT_ASSIGN(const bool there, artifact.look.HasFile(artifact.path, nkipy::kRecordName));
  if (!there) return OkStatus();
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, nkipy::kMaxRecordBytes));
  std::vector<nkipy::RecordedFile> found;
  for (size_t rank = 0; rank < artifact.files.size(); ++rank)
    found.push_back(
        {nkipy::ShardFileName(static_cast<int>(rank)), artifact.files[rank].file_bytes});
  return nkipy::CheckRecord(text, path, found);
}

}  // namespace

Result<bool> IsNkipyFolder(const std::string& path, const Looker& look) {
  return look.HasFile(path, nkipy::ShardFileName(0));
}

Status OpenNkipy(Artifact& artifact, const InputHints& hints) {
  NXDKIT_ASSIGN(const int ranks, CountRanks(artifact.path, artifact.look));
  if (const std::optional<int> tp = hints.Number("tp"); tp && *tp != ranks)
    return BadUsage("tp is {} by the rank files, but {} by {}", ranks, *tp, hints.origin)
        .in(artifact.path);
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string path = JoinPath(artifact.path, nkipy::ShardFileName(rank));
    NXDKIT_ASSIGN(TensorFile file, OpenTensorFile(path).rank(rank));
    artifact.files.push_back(std::move(file));
    artifact.ranks.push_back({path, rank, -1});
  }
  NXDKIT_TRY(HoldAgainstRecord(artifact));
  artifact.folder = artifact.path;
  return LoadConfig(artifact, hints, {artifact.path});
}

}  // namespace nxdkit::kinds
