#include "formats/ops/convert/standing.h"

#include <algorithm>
#include <set>

#include "lib/sinks/match_sink.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

// The target of the link to a bundle's weights, below the folder; "" if it is not a link.
Result<std::string> SlotOf(const OutputPlan& output, const std::string& folder) {
  if (output.first_slot.empty()) return std::string();
  NXDKIT_ASSIGN(const std::string target, ReadLink(JoinPath(folder, output.first_slot)));
  return target.empty() ? target : JoinPath(ParentPath(output.first_slot), target);
}

// The planned name of a file in the slot, which goes through the link.
std::string AsPlanned(const std::string& path, const std::string& slot, const std::string& link) {
  return slot.empty() || !path.starts_with(slot + "/") ? path : link + path.substr(slot.size());
}

// Checks that the folder has every file that it must have, and no other.
Status MatchNames(const OutputPlan& output, const std::string& folder,
                  const std::vector<PlannedFile>& all) {
  std::set<std::string> expected;
  for (const PlannedFile& file : all) expected.insert(file.path);
  for (const auto& [path, contents] : output.texts) expected.insert(path);
  for (const auto& [path, from] : output.copies) expected.insert(path);
  NXDKIT_ASSIGN(const std::string slot, SlotOf(output, folder));
  NXDKIT_ASSIGN(const std::vector<TreeEntry> entries, ListTree(folder));
  for (const TreeEntry& entry : entries) {
    if (entry.kind == PathKind::kFolder || entry.path == output.first_slot) continue;
    if (!expected.contains(AsPlanned(entry.path, slot, output.first_slot)))
      return Error(Errc::kFindings, "this file does not belong to it")
          .in(JoinPath(folder, entry.path));
  }
  return OkStatus();
}

Status MatchSmallFiles(const OutputPlan& output, const std::string& folder) {
  for (const auto& [path, contents] : output.texts)
    NXDKIT_TRY(MatchFile(JoinPath(folder, path),
                         std::as_bytes(std::span(contents.data(), contents.size()))));
  for (const auto& [path, from] : output.copies)
    NXDKIT_TRY(MatchCopy(JoinPath(folder, path), from));
  return OkStatus();
}

Status Match(const ConvertRequest& request, Conversion& conversion, const Executor& executor) {
  OutputPlan& output = conversion.output;
  if (!output.single_file) {
    NXDKIT_ASSIGN(const bool is_folder, IsFolder(request.output));
    if (!is_folder) return Error(Errc::kFindings, "this is not a folder").in(request.output);
    NXDKIT_TRY(MatchNames(output, request.output, conversion.files));
    for (const PlannedFile& file : conversion.files)
      NXDKIT_TRY(MatchFileSize(JoinPath(request.output, file.path), file.bytes));
    NXDKIT_TRY(MatchSmallFiles(output, request.output));
  }
  NXDKIT_ASSIGN(const std::unique_ptr<MatchSink> sink,
                MatchSink::Begin(request.output, output.layout, std::move(output.files)));
  if (request.run.begin) request.run.begin("comparing", executor.workload().bytes);
  NXDKIT_TRY(executor.Run(*sink));
  return sink->Finish();
}

}  // namespace

Result<bool> FindsOutput(const ConvertRequest& request) {
  if (std::holds_alternative<Slot>(request.place) || request.force) return false;
  if (!request.resume && !std::holds_alternative<Part>(request.place)) return false;
  NXDKIT_ASSIGN(const PathKind kind, KindOf(request.output));
  if (kind != PathKind::kFolder) return kind != PathKind::kMissing;
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(request.output));
  return !names.empty();
}

Error InTheWay(const std::string& output, const Error& difference) {
  return Error(Errc::kUsage,
               "the output exists and is not what this command makes: " + difference.ToString())
      .in(output)
      .hint("--force replaces it");
}

Status RequireSameOutput(const ConvertRequest& request, Conversion& conversion,
                         const Executor& executor) {
  Status same = Match(request, conversion, executor);
  if (same.ok() || same.error().code() != Errc::kFindings) return same;
  return InTheWay(request.output, same.error());
}

}  // namespace nxdkit::ops
