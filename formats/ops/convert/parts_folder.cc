#include "formats/ops/convert/parts_folder.h"

#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <vector>

#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/owner.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxPlanBytes = 4096;
constexpr std::string_view kPlanName = "plan";
constexpr std::string_view kFilesName = "files";
constexpr std::string_view kAsideEnd = ".partial";
constexpr size_t kAsideDigits = 16;

// A name next to the folder, on the same file system.
std::string AsideOf(const std::string& folder) {
  return fmt::format("{}.{:0{}x}{}", folder, RandomNumber(), kAsideDigits, kAsideEnd);
}

// Whether the base name is one that AsideOf makes for the folder.
bool IsAsideOf(const std::string& folder, std::string_view name) {
  const std::string start = BaseName(folder) + ".";
  if (!name.starts_with(start) || !name.ends_with(kAsideEnd) ||
      name.size() != start.size() + kAsideDigits + kAsideEnd.size())
    return false;
  return name.substr(start.size(), kAsideDigits).find_first_not_of("0123456789abcdef") ==
         std::string_view::npos;
}

// Whether it holds only files that parts leave there.
bool HoldsOnlyParts(const std::string& folder) {
  const Result<std::vector<std::string>> names = ListFolder(folder);
  return names.ok() && std::ranges::all_of(*names, [](const std::string& name) {
           return name == kFilesName || name.starts_with("part-") || name.starts_with("owner-") ||
                  name.starts_with("done-");
         });
}

// Makes the folders of `path` below `root`, which must exist: if made again, it would have no plan.
Status MakeFoldersBelow(const std::string& root, const std::string& path) {
  for (size_t end = root.size() + 1; end < path.size(); ++end) {
    end = std::min(path.find('/', end), path.size());
    const std::string folder = path.substr(0, end);
    if (::mkdir(folder.c_str(), 0777) != 0 && errno != EEXIST)
      return OutputError("create the folder", errno).in(folder);
  }
  return OkStatus();
}

// A folder that already exists: another process's, or without a plan.
Status PlanLeftFolder(const std::string& folder, const std::string& plan) {
  NXDKIT_ASSIGN(const bool has_plan, IsThere(JoinPath(folder, kPlanName)));
  if (has_plan) return CheckPartsFolder(folder, plan);
  NXDKIT_TRY(MakeFoldersBelow(folder, JoinPath(folder, kFilesName)));
  return WriteFileAtomic(JoinPath(folder, kPlanName), plan);
}

Status MakeClaim(const std::string& aside, const std::string& plan) {
  NXDKIT_TRY(MakeFolders(JoinPath(aside, kFilesName)));
  return WriteFileAtomic(JoinPath(aside, kPlanName), plan);
}

}  // namespace

Status CheckPartsFolder(const std::string& folder, const std::string& plan) {
  const Result<std::string> there = ReadSmallFile(JoinPath(folder, kPlanName), kMaxPlanBytes);
  if (!there.ok() && there.error().code() == Errc::kNotFound) return OkStatus();
  if (!there.ok()) return there.error();
  if (*there == plan) return OkStatus();
  return BadUsage("the folder holds the parts of another conversion or another split")
      .in(folder)
      .hint("use the same options and the same N for every part, or remove the folder");
}

Status ClaimPartsFolder(const std::string& folder, const std::string& plan) {
  NXDKIT_TRY(CheckPartsFolder(folder, plan));
  NXDKIT_ASSIGN(const bool has_plan, HasFile(folder, kPlanName));
  if (has_plan) return OkStatus();
  const std::string aside = AsideOf(folder);
  Status claimed = MakeClaim(aside, plan);
  // Another process may have been faster; a folder left by an earlier version has no plan.
  if (claimed.ok() && ::rename(aside.c_str(), folder.c_str()) != 0) {
    const int failure = errno;
    if (failure != EEXIST && failure != ENOTEMPTY)
      claimed = OutputError("create the folder", failure).in(folder);
    else
      claimed = PlanLeftFolder(folder, plan);
  }
  (void)RemoveTree(aside).ok();
  return claimed;
}

std::string FinishedPath(const std::string& folder, const std::string& path) {
  return JoinPath(JoinPath(folder, kFilesName), path);
}

Status MoveIntoParts(const std::string& folder, const std::string& from, const std::string& path) {
  const std::string to = FinishedPath(folder, path);
  NXDKIT_TRY(MakeFoldersBelow(folder, ParentPath(to)));
  if (::rename(JoinPath(from, path).c_str(), to.c_str()) != 0)
    return OutputError("rename", errno).in(to);
  return OkStatus();
}

void RemovePartsFolder(const std::string& folder) {
  const std::string aside = AsideOf(folder);
  if (::rename(folder.c_str(), aside.c_str()) == 0) (void)RemoveTree(aside).ok();
}

void ClearLeftParts(const std::string& folder, const std::string& plan) {
  const Result<std::string> there = ReadSmallFile(JoinPath(folder, kPlanName), kMaxPlanBytes);
  const bool ours = there.ok() ? *there == plan
                               : there.error().code() == Errc::kNotFound && HoldsOnlyParts(folder);
  if (ours) RemovePartsFolder(folder);
  const Result<std::vector<std::string>> names = ListFolder(ParentPath(folder));
  for (const std::string& name : names.ok() ? *names : std::vector<std::string>())
    if (IsAsideOf(folder, name)) (void)RemoveTree(JoinPath(ParentPath(folder), name)).ok();
}

}  // namespace nxdkit::ops
