#include "tools/cache/room.h"

#include <fmt/core.h>

#include "formats/compile_cache/known_roots.h"
#include "formats/compile_cache/prune.h"
#include "formats/compile_cache/sweep.h"
#include "formats/ops/verify/blob.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "tools/cache/look.h"

namespace nxdkit::tool {
namespace {

constexpr int64_t kDaySeconds = 24 * 3600;

Json PrunedJson(const std::vector<neff::Pruned>& list) {
  Json json = Json::array();
  for (const neff::Pruned& pruned : list)
    json.push_back({{"entry", pruned.entry}, {"reason", pruned.reason}, {"bytes", pruned.bytes}});
  return json;
}

Result<neff::PruneOptions> OptionsOf(const CacheArgs& args, const neff::CachePlace& place,
                                     const ToolContext& context) {
  neff::PruneOptions options;
  options.max_bytes = place.max_bytes.value_or(options.max_bytes);
  options.keep_seconds = place.keep_seconds.value_or(options.keep_seconds);
  options.everything = args.command == "clear";
  options.dry_run = context.common().dry_run;
  options.poll = context.poll();
  options.empty = args.empty;
  options.damaged = args.damaged;
  options.check_blob = ops::BlobFaults;
  if (args.max_size) {
    Result<uint64_t> bytes = ParseBytes(*args.max_size);
    if (!bytes.ok()) return Error(Errc::kUsage, "--max-size: " + bytes.error().message());
    options.max_bytes = *bytes;
  }
  if (args.ttl_days) options.keep_seconds = *args.ttl_days * kDaySeconds;
  if (args.only_compiler)
    options.only_compiler = args.only_compiler->starts_with("neuronxcc-")
                                ? *args.only_compiler
                                : "neuronxcc-" + *args.only_compiler;
  return options;
}

Result<neff::PruneReport> RemoveFrom(const neff::FoundTree& tree,
                                     const neff::PruneOptions& options) {
  if (tree.kind == neff::TreeKind::kXla) return neff::Prune(tree.root, options);
  return neff::Sweep(tree, options, neff::NeffTreeLocks(EnvironmentValue));
}

}  // namespace

Result<ToolAnswer> MakeRoom(const CacheArgs& args, const neff::CachePlace& place,
                            const neff::FoundTree& tree, ToolContext& context) {
  NXDKIT_ASSIGN(const neff::PruneOptions options, OptionsOf(args, place, context));
  neff::PruneReport report;
  NXDKIT_ASSIGN(const bool not_made_yet, IsNotMadeYet(args, tree.root));
  if (!not_made_yet) NXDKIT_TRY(RemoveFrom(tree, options).To(report));
  ToolAnswer answer;
  const char* verb = options.dry_run ? "would remove" : "removed";
  for (const neff::Pruned& pruned : report.removed)
    answer.text += fmt::format("{} {} ({}, {})\n", verb, EscapeControl(pruned.entry), pruned.reason,
                               HumanBytes(pruned.bytes));
  for (const neff::Pruned& pruned : report.in_use)
    answer.text += fmt::format("in use: {} ({})\n", EscapeControl(pruned.entry), pruned.reason);
  answer.text +=
      fmt::format("{}: {} {} of {}, {} left\n", EscapeControl(tree.root), verb,
                  HumanBytes(report.bytes_before - report.bytes_after),
                  Counted(report.removed.size(), "entry"), HumanBytes(report.bytes_after));
  if (report.over_limit_bytes > 0 && args.command == "prune")
    context.Warn(fmt::format("still {} over the limit: the rest is in use or was used lately",
                             HumanBytes(report.over_limit_bytes)));
  answer.fields = {
      {"removed", PrunedJson(report.removed)},       {"in_use", PrunedJson(report.in_use)},
      {"bytes_before", report.bytes_before},         {"bytes_after", report.bytes_after},
      {"over_limit_bytes", report.over_limit_bytes}, {"dry_run", options.dry_run}};
  return answer;
}

}  // namespace nxdkit::tool
