// neuron-cache: what is in the compile cache, is it whole, and making room in it.
#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/cache.h"
#include "formats/compile_cache/place.h"
#include "formats/compile_cache/prune.h"
#include "formats/ops/verify/blob.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"
#include "lib/system/signals.h"
#include "tools/cli/tool.h"

namespace nxdkit::tool {
namespace {

struct Args {
  std::string command;
  std::optional<std::string> cache_dir;
  std::optional<std::string> max_size;
  std::optional<int> ttl_days;
  bool empty = false;
  bool damaged = false;
  std::optional<std::string> only_compiler;
};

constexpr int kMaxDays = 36500;
constexpr int64_t kDaySeconds = 24 * 3600;

const ToolInfo kInfo = {
    .name = "neuron-cache",
    .summary = "lists, verifies and prunes the compile cache",
    .details =
        "COMMAND is ls, verify, prune or clear. prune removes failures, what died while it was "
        "made and, while the cache is over its size limit, what was not used for longest; clear "
        "removes every entry. What another process is using or making is left.",
    .findings = "verify found a damaged entry",
    .common = kTakesDryRun,
    .examples = {{"neuron-cache ls", "what is in it"},
                 {"neuron-cache verify", "is all of it whole"},
                 {"neuron-cache prune --max-size 50G --ttl 7", "make room"},
                 {"neuron-cache clear --dry-run", "what would be removed"}},
};

void AddOptions(OptionTable& table, Args& args) {
  table.Group("Arguments");
  table.Positional("COMMAND", &args.command, "ls, verify, prune or clear")
      .completes(Completes::kNothing);
  table.Group("Cache");
  table
      .Text("cache-dir", "DIR", &args.cache_dir,
            "the cache; without it that of NEURON_CC_FLAGS or NEURON_COMPILE_CACHE_URL")
      .completes(Completes::kFolderOrUrl);
  table.Group("What prune removes");
  table.Text("max-size", "SIZE", &args.max_size, "entries not used lately, while there is more")
      .default_text("100G");
  table
      .Integer("ttl", "DAYS", &args.ttl_days, {0, kMaxDays},
               "but none that was used in the last DAYS days")
      .default_text("30");
  table.Flag("empty", &args.empty, "unfinished entries that nobody works on, too");
  table.Flag("damaged", &args.damaged, "entries in which verify finds something, too");
  table.Text("only-compiler", "VERSION", &args.only_compiler,
             "entries of all compilers but this one, too");
}

std::string EntryName(const neff::CacheEntry& entry) {
  return JoinPath(entry.compiler, entry.module);
}

Json EntryJson(const neff::CacheEntry& entry) {
  return {{"compiler", entry.compiler},
          {"module", entry.module},
          {"state", neff::StateName(entry.state)},
          {"payload", entry.payload.empty() ? Json() : Json(entry.payload)},
          {"files", entry.files},
          {"bytes", entry.bytes},
          {"used_ns", entry.used_ns}};
}

ToolAnswer List(const neff::CacheListing& listing) {
  std::string text;
  Json entries = Json::array();
  for (const neff::CacheEntry& entry : listing.entries) {
    entries.push_back(EntryJson(entry));
    text += fmt::format("{:<7} {:>9}  {}\n", neff::StateName(entry.state), HumanBytes(entry.bytes),
                        EscapeControl(EntryName(entry)));
  }
  text += fmt::format("{}: {} {}, {}\n", EscapeControl(listing.root), listing.entries.size(),
                      listing.entries.size() == 1 ? "entry" : "entries", HumanBytes(listing.bytes));
  return {text,
          {{"entries", std::move(entries)},
           {"bytes", listing.bytes},
           {"strangers", listing.strangers}}};
}

Result<ToolAnswer> VerifyAll(const neff::CacheListing& listing) {
  ToolAnswer answer;
  Json findings = Json::array();
  size_t checked = 0;
  for (const neff::CacheEntry& entry : listing.entries) {
    NXDKIT_TRY(StopIfInterrupted());
    if (entry.state != neff::EntryState::kDone) continue;
    ++checked;
    NXDKIT_ASSIGN(const std::vector<neff::EntryFault> faults,
                  neff::VerifyEntry(entry, StopIfInterrupted, ops::BlobFaults));
    for (const neff::EntryFault& fault : faults) {
      const std::string place =
          fault.file.empty() ? EntryName(entry) : JoinPath(EntryName(entry), fault.file);
      answer.text += "WRONG: " + EscapeControl(place + ": " + fault.message) + "\n";
      findings.push_back({{"entry", EntryName(entry)},
                          {"file", fault.file.empty() ? Json() : Json(fault.file)},
                          {"message", fault.message}});
    }
  }
  answer.findings = !findings.empty();
  answer.text += fmt::format("{}: {} finished of {} entries checked, {} finding{}\n",
                             EscapeControl(listing.root), checked, listing.entries.size(),
                             findings.size(), findings.size() == 1 ? "" : "s");
  answer.fields = {{"entries_checked", checked},
                   {"entries_total", listing.entries.size()},
                   {"findings", std::move(findings)}};
  return answer;
}

Json PrunedJson(const std::vector<neff::Pruned>& list) {
  Json json = Json::array();
  for (const neff::Pruned& pruned : list)
    json.push_back({{"entry", pruned.entry}, {"reason", pruned.reason}, {"bytes", pruned.bytes}});
  return json;
}

Result<neff::PruneOptions> OptionsOf(const Args& args, const neff::CachePlace& place,
                                     const ToolContext& context) {
  neff::PruneOptions options;
  options.max_bytes = place.max_bytes.value_or(options.max_bytes);
  options.keep_seconds = place.keep_seconds.value_or(options.keep_seconds);
  options.everything = args.command == "clear";
  options.dry_run = context.common().dry_run;
  options.poll = StopIfInterrupted;
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

// A cache that nothing was put into yet has no folder; one that the user names has to be there.
Result<bool> IsNotMadeYet(const Args& args, const std::string& root) {
  NXDKIT_ASSIGN(const bool there, IsThere(root));
  return !args.cache_dir && !there;
}

Result<ToolAnswer> Remove(const Args& args, const neff::CachePlace& place, ToolContext& context) {
  NXDKIT_ASSIGN(const neff::PruneOptions options, OptionsOf(args, place, context));
  const std::string& root = place.root;
  neff::PruneReport report;
  NXDKIT_ASSIGN(const bool not_made_yet, IsNotMadeYet(args, root));
  if (!not_made_yet) NXDKIT_TRY(neff::Prune(root, options).To(report));
  ToolAnswer answer;
  const char* verb = options.dry_run ? "would remove" : "removed";
  for (const neff::Pruned& pruned : report.removed)
    answer.text += fmt::format("{} {} ({}, {})\n", verb, EscapeControl(pruned.entry), pruned.reason,
                               HumanBytes(pruned.bytes));
  for (const neff::Pruned& pruned : report.in_use)
    answer.text += fmt::format("in use: {} ({})\n", EscapeControl(pruned.entry), pruned.reason);
  answer.text += fmt::format("{}: {} {} of {} entries, {} left\n", EscapeControl(root), verb,
                             HumanBytes(report.bytes_before - report.bytes_after),
                             report.removed.size(), HumanBytes(report.bytes_after));
  if (report.over_limit_bytes > 0 && args.command == "prune")
    context.Warn(fmt::format("still {} over the limit: the rest is in use or was used lately",
                             HumanBytes(report.over_limit_bytes)));
  answer.fields = {
      {"removed", PrunedJson(report.removed)},       {"in_use", PrunedJson(report.in_use)},
      {"bytes_before", report.bytes_before},         {"bytes_after", report.bytes_after},
      {"over_limit_bytes", report.over_limit_bytes}, {"dry_run", options.dry_run}};
  return answer;
}

Result<ToolAnswer> Look(const Args& args, const std::string& root) {
  neff::CacheListing listing;
  listing.root = root;
  NXDKIT_ASSIGN(const bool not_made_yet, IsNotMadeYet(args, root));
  if (!not_made_yet) NXDKIT_TRY(neff::ListCache(root).To(listing));
  if (args.command == "ls") return List(listing);
  return VerifyAll(listing);
}

Status CheckCommand(const Args& args) {
  const std::vector<std::string> commands = {"ls", "verify", "prune", "clear"};
  if (std::ranges::find(commands, args.command) == commands.end()) {
    const auto closest = ClosestWord(args.command, commands);
    return BadUsage("COMMAND is \"{}\", expected ls, verify, prune or clear", args.command)
        .hint(closest ? fmt::format("did you mean {}?", *closest) : "");
  }
  const bool limits =
      args.max_size || args.ttl_days || args.empty || args.damaged || args.only_compiler;
  if (limits && args.command != "prune")
    return BadUsage("--max-size, --ttl, --empty, --damaged and --only-compiler belong to prune");
  return OkStatus();
}

Result<ToolAnswer> Run(const Args& args, ToolContext& context) {
  NXDKIT_TRY(CheckCommand(args));
  NXDKIT_ASSIGN(const neff::CachePlace place,
                neff::FindCache(args.cache_dir, EnvironmentValue("NEURON_CC_FLAGS"),
                                EnvironmentValue("NEURON_COMPILE_CACHE_URL")));
  if (place.root.find("://") != std::string::npos)
    return Error(Errc::kUnsupported, place.disabled_because).hint("name a folder with --cache-dir");
  const bool removes = args.command == "prune" || args.command == "clear";
  NXDKIT_ASSIGN(ToolAnswer answer, removes ? Remove(args, place, context) : Look(args, place.root));
  answer.fields["command"] = args.command;
  answer.fields["root"] = place.root;
  return answer;
}

}  // namespace
}  // namespace nxdkit::tool

int main(int argc, char** argv) {
  return RunTool(argc, argv, nxdkit::tool::kInfo, nxdkit::tool::AddOptions, nxdkit::tool::Run);
}
