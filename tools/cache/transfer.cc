#include "tools/cache/transfer.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/known_roots.h"
#include "formats/compile_cache/merge.h"
#include "formats/compile_cache/relocate.h"
#include "formats/ops/precompile/used_by.h"
#include "formats/ops/verify/blob.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/look.h"
#include "lib/system/process.h"
#include "tools/cache/look.h"

namespace nxdkit::tool {
namespace {

struct Ends {
  std::string from, into, local;
};

// The local tree of the same kind as the other one.
Result<std::string> LocalRoot(const CacheArgs& args, const neff::CachePlace& place,
                              const std::string& other) {
  if (args.cache_dir) return FolderOf(place);
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(other));
  if (tree.is_empty)
    return BadUsage("nothing in {} says which cache is meant", other)
        .hint("name this machine's with --cache-dir");
  const std::vector<std::string> roots = neff::KnownRoots(tree.kind, EnvironmentValue);
  if (roots.empty()) return FolderOf(place);
  const auto there = std::ranges::find_if(
      roots, [](const std::string& root) { return KindForHint(root) == PathKind::kFolder; });
  return there == roots.end() ? roots[0] : *there;
}

Result<Ends> EndsOf(const CacheArgs& args, const neff::CachePlace& place) {
  if (args.command == "merge") return Ends{args.words[0], args.words[1], args.words[1]};
  if (args.command == "pack") {
    NXDKIT_ASSIGN(const std::string from, FolderOf(place));
    return Ends{from, args.words[0], from};
  }
  NXDKIT_ASSIGN(const std::string local, LocalRoot(args, place, args.words[0]));
  if (args.command == "push") return Ends{local, args.words[0], local};
  return Ends{args.words[0], local, local};
}

Json ItemsJson(const std::vector<neff::MergeItem>& items) {
  Json json = Json::array();
  for (const neff::MergeItem& item : items)
    json.push_back({{"entry", item.entry},
                    {"reason", item.reason},
                    {"message", item.message.empty() ? Json() : Json(item.message)},
                    {"bytes", item.bytes}});
  return json;
}

std::string ItemLine(const char* verb, const neff::MergeItem& item) {
  const std::string message = item.message.empty() ? "" : ": " + EscapeControl(item.message);
  return fmt::format("{} {} ({}){}\n", verb, EscapeControl(item.entry), item.reason, message);
}

// The smallest cache has nothing else in it, so it goes into a new or empty folder.
Status CheckIsNew(const std::string& into) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(into));
  if (names.empty()) return OkStatus();
  return BadUsage("it exists and is not empty").in(into).hint("name a new folder");
}

Result<ops::UsedEntries> UsedBy(const std::string& file, const std::string& from) {
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(from));
  return ops::ReadUsedBy(file, tree);
}

std::string WithoutSlash(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

Json FilesJson(const std::vector<neff::Relocated>& files, bool with_reason) {
  Json json = Json::array();
  for (const neff::Relocated& file : files) {
    json.push_back({{"file", file.file}});
    if (with_reason) json.back()["reason"] = file.reason;
  }
  return json;
}

}  // namespace

bool RunsProgram(const std::string& command) {
  return command == "collect" || command == "warm" || command == "check";
}

bool IsTransfer(const std::string& command) {
  return command == "merge" || command == "push" || command == "pull" || command == "pack";
}

Status CheckWords(const CacheArgs& args) {
  struct Row {
    const char* command;
    size_t paths;
    const char* words;
  };
  constexpr Row kRows[] = {{"merge", 2, "FROM INTO"},
                           {"push", 1, "TO"},
                           {"pull", 1, "FROM"},
                           {"pack", 1, "INTO"},
                           {"relocate", 2, "OLD NEW"}};
  if (RunsProgram(args.command)) return OkStatus();
  const auto* row = std::ranges::find(kRows, args.command, &Row::command);
  const size_t expected = row == std::end(kRows) ? 0 : row->paths;
  if (args.words.size() == expected) return OkStatus();
  return BadUsage("{} takes {}, {} found", args.command,
                  expected == 0 ? "no paths" : fmt::format("{}", row->words), args.words.size());
}

Result<ToolAnswer> Transfer(const CacheArgs& args, const neff::CachePlace& place,
                            ToolContext& context) {
  NXDKIT_ASSIGN(const Ends ends, EndsOf(args, place));
  for (const std::string& root : {ends.from, ends.into}) {
    NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(root));
    if (tree.is_old_place) context.Warn(neff::OldPlaceNote(root));
  }
  neff::MergeOptions options;
  options.damaged = args.damaged;
  options.dry_run = context.common().dry_run;
  options.neff_tree_locks = neff::NeffTreeLocks(EnvironmentValue);
  if (args.kernels) options.kernels = *args.kernels;
  options.poll = context.poll();
  options.check_blob = ops::BlobFaults;
  ops::UsedEntries used;
  if (args.used_by) {
    NXDKIT_TRY(CheckIsNew(ends.into));
    NXDKIT_TRY(UsedBy(*args.used_by, ends.from).To(used));
    options.only.emplace(used.there.begin(), used.there.end());
  }
  NXDKIT_ASSIGN(const neff::MergeReport report, neff::MergeTree(ends.from, ends.into, options));
  ToolAnswer answer;
  const char* verb = options.dry_run ? "would copy" : "copied";
  for (const neff::MergeItem& item : report.copied) answer.text += ItemLine(verb, item);
  for (const neff::MergeItem& item : report.left) answer.text += ItemLine("left", item);
  for (const std::string& name : used.missing)
    answer.text += fmt::format("WRONG: {} is not in the cache\n", EscapeControl(name));
  for (const neff::MergeItem& item : report.unlinked) {
    const std::string fault =
        item.reason == "no binary"
            ? fmt::format("names the kernel binary {}, which is not in the trees and not in {}",
                          item.message, options.kernels)
            : fmt::format("its paths stay as they are: {}", item.message);
    answer.text += fmt::format("WRONG: {}: {}\n", EscapeControl(item.entry), EscapeControl(fault));
  }
  answer.text +=
      fmt::format("{}: {} {} into {}, {}; {} there before, {} left\n", EscapeControl(report.from),
                  verb, report.copied.size(), EscapeControl(report.into), HumanBytes(report.bytes),
                  report.kept, report.left.size());
  answer.findings =
      !report.unlinked.empty() || std::ranges::any_of(report.left, [](const neff::MergeItem& item) {
        return item.reason == "damaged" || item.reason == "differs";
      });
  // A run's cache must be complete.
  const bool is_pack = args.command == "pack";
  answer.findings = answer.findings || (is_pack && (!used.missing.empty() || !report.left.empty()));
  const bool is_push = args.command == "push";
  answer.fields = {{"root", is_push ? report.from : report.into},
                   {"tree", neff::TreeName(report.kind)},
                   {"from", report.from},
                   {"into", report.into},
                   {"copied", ItemsJson(report.copied)},
                   {"left", ItemsJson(report.left)},
                   {"unlinked", ItemsJson(report.unlinked)},
                   {"kept", report.kept},
                   {"bytes", report.bytes},
                   {"dry_run", options.dry_run}};
  if (is_pack) answer.fields["missing"] = used.missing;
  return answer;
}

Result<ToolAnswer> Relocate(const CacheArgs& args, const neff::CachePlace& place,
                            ToolContext& context) {
  std::string root;
  if (!args.cache_dir) {
    const std::vector<std::string> roots =
        neff::KnownRoots(neff::TreeKind::kLite, EnvironmentValue);
    const auto there = std::ranges::find_if(
        roots, [](const std::string& each) { return KindForHint(each) == PathKind::kFolder; });
    if (there != roots.end()) root = *there;
  }
  if (root.empty()) NXDKIT_TRY(FolderOf(place).To(root));
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(root));
  neff::RelocateOptions options{WithoutSlash(args.words[0]), WithoutSlash(args.words[1]),
                                context.common().dry_run, context.poll()};
  NXDKIT_ASSIGN(const neff::RelocateReport report, neff::RelocateKernels(tree, options));
  ToolAnswer answer;
  const char* verb = options.dry_run ? "would change" : "changed";
  for (const neff::Relocated& file : report.changed)
    answer.text += fmt::format("{} {}\n", verb, EscapeControl(file.file));
  for (const neff::Relocated& file : report.left)
    answer.text +=
        fmt::format("left {}: {}\n", EscapeControl(file.file), EscapeControl(file.reason));
  for (const std::string& path : report.missing)
    answer.text += fmt::format("WRONG: there is no {}\n", EscapeControl(path));
  answer.text += fmt::format("{}: {} {} of {}, {} left\n", EscapeControl(tree.root), verb,
                             Grouped(report.changed.size()), Counted(report.looked_at, "file"),
                             Grouped(report.left.size()));
  answer.findings = !report.left.empty() || !report.missing.empty();
  answer.fields = {{"root", tree.root},
                   {"tree", TreeJson(tree)},
                   {"changed", FilesJson(report.changed, false)},
                   {"left", FilesJson(report.left, true)},
                   {"missing", report.missing},
                   {"files", report.looked_at},
                   {"dry_run", options.dry_run}};
  return answer;
}

}  // namespace nxdkit::tool
