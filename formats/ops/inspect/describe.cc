#include "formats/ops/inspect/describe.h"

#include <sys/stat.h>

#include <filesystem>

#include "formats/rollout/cpu_plan.h"
#include "lib/system/folders.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;

// 0 when there is none.
uint64_t FileBytes(const std::string& path) {
  struct stat info {};
  if (::stat(path.c_str(), &info) != 0 || !S_ISREG(info.st_mode)) return 0;
  return static_cast<uint64_t>(info.st_size);
}

// Bytes of a file, or of all files below a folder.
uint64_t BytesBelow(const std::string& path) {
  if (KindOf(path) != PathKind::kFolder) return FileBytes(path);
  uint64_t bytes = 0;
  std::error_code error;
  fs::recursive_directory_iterator at(path, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error))
    bytes += FileBytes(at->path().string());
  return bytes;
}

// What NxD keeps in a tag folder beside the weights.
constexpr const char* kBeside[] = {"optim", "scheduler.pt", "user_content.pt"};

bool HoldsOwnFiles(nxd::SetStyle style) {
  return style == nxd::SetStyle::kV2Xser || style == nxd::SetStyle::kV1Xser;
}

}  // namespace

void DescribeSet(Inspection& inspection) {
  const nxd::SetLocation& location = inspection.artifact.set->location;
  NxdFacts& facts = inspection.nxd.emplace();
  facts.style = location.style;
  facts.tp = location.tp;
  facts.pp = location.pp;
  facts.ep = location.ep;
  facts.xser = HoldsOwnFiles(location.style);
  facts.has_markers = location.has_markers;
  facts.done = location.finished;
  inspection.entries = inspection.artifact.set->skipped;
  if (!location.has_markers) return;
  facts.tag = location.tag;
  facts.checkpoint = KindOf(JoinPath(location.tag_folder, "checkpoint")) == PathKind::kFile;
  for (const char* name : kBeside) {
    const std::string path = JoinPath(location.tag_folder, name);
    const PathKind kind = KindOf(path);
    if (kind == PathKind::kMissing) continue;
    facts.beside.push_back(
        {std::string(name) + (kind == PathKind::kFolder ? "/" : ""), BytesBelow(path)});
  }
}

void DescribeBundle(Inspection& inspection) {
  const rollout::Bundle& bundle = *inspection.artifact.bundle;
  RolloutFacts& facts = inspection.rollout.emplace();
  facts.config = bundle.config;
  facts.weights = bundle.version;
  facts.first_rank = bundle.first_rank;
  facts.ranks = static_cast<int64_t>(bundle.shards.size());
  for (const std::string& blob : bundle.blobs)
    facts.blobs.push_back({blob, FileBytes(JoinPath(bundle.folder, blob))});
  const std::string plan(rollout::kCpuPlanFile);
  if (bundle.has_cpu_plan) facts.blobs.push_back({plan, FileBytes(JoinPath(bundle.folder, plan))});
}

}  // namespace nxdkit::ops
