#include "formats/ops/convert/standing.h"

#include <algorithm>
#include <filesystem>
#include <set>

#include "lib/sinks/match_sink.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

namespace fs = std::filesystem;

// Where the link of a bundle's weights leads, below the folder; "" when it is no link.
std::string SlotOf(const OutputPlan& output, const std::string& folder) {
  if (output.first_slot.empty()) return "";
  std::error_code failure;
  const fs::path target = fs::read_symlink(JoinPath(folder, output.first_slot), failure);
  return failure ? "" : JoinPath(ParentPath(output.first_slot), target.string());
}

// A file in the slot has its planned name by the link.
std::string AsPlanned(const std::string& path, const std::string& slot, const std::string& link) {
  return slot.empty() || !path.starts_with(slot + "/") ? path : link + path.substr(slot.size());
}

// Every file that the folder must have, and no other.
Status MatchNames(const OutputPlan& output, const std::string& folder,
                  const std::vector<PlannedFile>& all) {
  std::set<std::string> expected;
  for (const PlannedFile& file : all) expected.insert(file.path);
  for (const auto& [path, contents] : output.texts) expected.insert(path);
  for (const auto& [path, from] : output.copies) expected.insert(path);
  const std::string slot = SlotOf(output, folder);
  std::error_code failure;
  fs::recursive_directory_iterator entry(folder, failure);
  for (; !failure && entry != fs::recursive_directory_iterator(); entry.increment(failure)) {
    if (entry->is_directory(failure) || failure) continue;
    const std::string path = entry->path().lexically_relative(folder).string();
    if (!expected.contains(AsPlanned(path, slot, output.first_slot)))
      return Error(Errc::kFindings, "this file does not belong to it").in(entry->path().string());
  }
  if (failure) return SystemError("list the folder", failure.value()).in(folder);
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
    if (KindOf(request.output) != PathKind::kFolder)
      return Error(Errc::kFindings, "this is not a folder").in(request.output);
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

bool FindsOutput(const ConvertRequest& request) {
  if (std::holds_alternative<Slot>(request.place) || request.force) return false;
  if (!request.resume && !std::holds_alternative<Part>(request.place)) return false;
  const PathKind kind = KindOf(request.output);
  if (kind != PathKind::kFolder) return kind != PathKind::kMissing;
  const Result<std::vector<std::string>> names = ListFolder(request.output);
  return !names.ok() || !names->empty();
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
