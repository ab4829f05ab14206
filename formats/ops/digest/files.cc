#include "formats/ops/digest/files.h"

#include <algorithm>

#include "formats/kinds/rollout/rollout_state.h"
#include "formats/nxd/tensor_files.h"
#include "formats/rollout/weight_slots.h"
#include "lib/base/errors.h"
#include "lib/base/parallel.h"
#include "lib/hash/hash_file.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

using manifest::FileDigest;

constexpr size_t kMaxFiles = 1'000'000;

// The paths at which files are read. A bundle's weights are not read through its link: that may
// lead to another version by now than the one that was opened.
class Places {
 public:
  Places(const Artifact& artifact, std::string folder) : folder_(std::move(folder)) {
    const rollout::Bundle* const opened = BundleOf(artifact);
    if (!opened || !opened->lock) return;
    const rollout::Bundle& bundle = *opened;
    pinned_ = rollout::PlaceOf(bundle.weights_folder, *bundle.lock);
    if (bundle.weights_link != bundle.folder)
      weights_ = bundle.weights_link.substr(JoinPath(bundle.folder, "").size());
  }
  // `below`: a path below the folder; "" is the folder itself.
  std::string PathOf(const std::string& below) const {
    if (pinned_.empty() || !below.starts_with(weights_)) return Join(folder_, below);
    if (weights_.empty()) return Join(pinned_, below);
    const std::string rest = below.substr(weights_.size());
    return rest.empty() || rest.starts_with('/') ? pinned_ + rest : Join(folder_, below);
  }
  const std::string& folder() const { return folder_; }

 private:
  static std::string Join(const std::string& folder, const std::string& below) {
    return below.empty() ? folder : JoinPath(folder, below);
  }
  std::string folder_;
  std::string weights_;  // the path of the bundle's weights below the folder, through the link
  std::string pinned_;   // the version that is open; "" if there is none
};

struct Folder {
  std::string below;               // its path below the artifact's folder
  std::vector<std::string> chain;  // the real folders above it, itself last
};

// Walks the tree from a folder of the artifact, without recursion: folders still to be listed are
// kept in a list.
Status ListFiles(const Places& places, const std::string& from,
                 const std::vector<std::string>& without, std::vector<FileDigest>& files) {
  std::vector<std::string> left_out;
  for (const std::string& path : without) {
    NXDKIT_ASSIGN(std::string real, RealPath(path));
    left_out.push_back(std::move(real));
  }
  NXDKIT_ASSIGN(const std::string real_start, RealPath(places.PathOf(from)));
  std::vector<Folder> folders{{from, {real_start}}};
  while (!folders.empty()) {
    const Folder here = std::move(folders.back());
    folders.pop_back();
    NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(places.PathOf(here.below)));
    for (const std::string& name : names) {
      if (name.starts_with('.')) continue;
      const std::string below = here.below.empty() ? name : JoinPath(here.below, name);
      const std::string path = places.PathOf(below);
      NXDKIT_ASSIGN(const PathKind kind, KindOf(path));
      if (kind != PathKind::kFolder && kind != PathKind::kFile) continue;
      NXDKIT_ASSIGN(const std::string real, RealPath(path));
      if (kind == PathKind::kFile) {
        if (std::ranges::find(left_out, real) == left_out.end()) files.push_back({below, 0, {}});
        continue;
      }
      if (std::ranges::find(here.chain, real) != here.chain.end())
        return Unsupported("the link leads to a folder that contains it").in(path);
      folders.push_back({below, here.chain});
      folders.back().chain.push_back(real);
    }
    if (files.size() > kMaxFiles)
      return OverLimit("more than {} files", kMaxFiles).in(places.folder());
  }
  std::ranges::sort(files, {}, &FileDigest::path);
  return OkStatus();
}

Status AddDigest(const std::string& path, const RunOptions& run, FileDigest& out) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  out.bytes = file.bytes();
  NXDKIT_ASSIGN(out.digest, HashFile<Sha256Bytes>(file, 0, out.bytes, run.poll, run.on_bytes));
  return OkStatus();
}

}  // namespace

Result<std::vector<FileDigest>> DigestFiles(const Artifact& artifact,
                                            const std::vector<std::string>& without,
                                            const RunOptions& run) {
  if (PathsOf(artifact).empty())
    return BadUsage("tensors in memory have no files that a manifest could record")
        .in(artifact.path)
        .hint("--no-files digests only the weights");
  std::string folder = artifact.folder;
  std::vector<FileDigest> files;
  if (folder.empty()) {
    folder = ParentPath(artifact.path);
    const std::string name = BaseName(artifact.path);
    files.push_back({name, 0, {}});
    const std::string tensors = name + nxd::kTensorFolder;
    NXDKIT_ASSIGN(const bool has_tensors, IsFolder(JoinPath(folder, tensors)));
    if (has_tensors) NXDKIT_TRY(ListFiles(Places(artifact, folder), tensors, without, files));
  } else {
    NXDKIT_TRY(ListFiles(Places(artifact, folder), "", without, files));
  }
  const Places places(artifact, folder);
  // The largest first, so that the threads end together.
  std::vector<std::pair<uint64_t, size_t>> order;
  uint64_t total = 0;
  for (size_t i = 0; i < files.size(); ++i) {
    NXDKIT_ASSIGN(const PathInfo info, LookAt(places.PathOf(files[i].path)));
    order.push_back({info.bytes, i});
    total += order.back().first;
  }
  std::ranges::sort(order, std::greater<>());
  if (run.begin) run.begin("hashing files", total);

  NXDKIT_TRY(ParallelFor(order.size(), run.jobs, [&](size_t i) {
    FileDigest& file = files[order[i].second];
    return AddDigest(places.PathOf(file.path), run, file);
  }));
  return files;
}

}  // namespace nxdkit::ops
