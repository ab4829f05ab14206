#include "tools/cache/collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

#include "formats/compile_cache/entry_files.h"
#include "formats/ops/precompile/collect.h"
#include "formats/ops/precompile/explain.h"
#include "formats/ops/precompile/scratch_folder.h"
#include "formats/ops/precompile/used_by.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/command_text.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"
#include "tools/cache/compile.h"
#include "tools/cache/look.h"

namespace nxdkit::tool {
namespace {

constexpr char kNoneCollected[] =
    "no graph was collected: the command traces none, or names a cache by itself\n";
constexpr char kIgnoreVariable[] = "NEURON_IGNORE_TRAINING_SCRIPT_ERROR_AND_COMPILE";

bool IgnoresErrors(const CacheArgs& args) {
  return args.ignore_error || EnvironmentValue(kIgnoreVariable) == "1";
}

// The cache as a tree of libneuronxla, the only engine whose programs can be told to collect.
Result<neff::FoundTree> TreeOf(const neff::CachePlace& place) {
  NXDKIT_ASSIGN(const std::string root, FolderOf(place));
  NXDKIT_ASSIGN(const neff::FoundTree tree, neff::FindTree(root));
  if (tree.kind == neff::TreeKind::kXla) return tree;
  return Unsupported("a tree of {}: nothing makes its engine write graphs without compiling them",
                     neff::TreeName(tree.kind))
      .in(root)
      .hint(tree.kind == neff::TreeKind::kLite
                ? "VLLM_NEURON_CPU_COMPILE=1 has the engine compile on a machine without devices"
                : "");
}

// The folder where the run looks: an older release of the library uses a subfolder of the root.
neff::FoundTree CacheOf(const std::string& root, const ops::CollectedGraphs& graphs) {
  const bool old = graphs.tree.is_old_place;
  return {old ? JoinPath(root, neff::kOldPlace) : root, neff::TreeKind::kXla, false, {}, old};
}

// The names of all entries, to find those that the program wrote past the cache it was given.
Result<std::set<std::string>> NamesIn(const neff::FoundTree& tree) {
  std::set<std::string> names;
  NXDKIT_ASSIGN(const bool there, IsFolder(tree.root));
  if (!there) return names;
  NXDKIT_ASSIGN(const neff::CacheListing listing,
                neff::ListTreeOf(tree, neff::MomentOf(tree.root)));
  for (const neff::CacheEntry& entry : listing.entries) names.insert(neff::EntryName(entry));
  return names;
}

void WarnOfLeft(const ops::CollectedGraphs& graphs, ToolContext& context) {
  for (const ops::NamedReason& each : graphs.left)
    context.Warn(EscapeControl(fmt::format("{} was not collected: {}", each.entry, each.reason)));
}

// A run of the program with a cache of its own.
struct Collection {
  ops::ProgramEnd end;
  ops::CollectedGraphs graphs;
  std::optional<Error> interrupted;  // the graphs that it had traced by then are in `graphs`
  // Entries that appeared in the cache itself meanwhile, when the program wrote none to its own.
  std::vector<std::string> past;
};

Result<Collection> RunWith(const std::string& scratch, const neff::FoundTree& tree,
                           const std::vector<std::string>& command, ToolContext& context) {
  NXDKIT_ASSIGN(const std::vector<std::string> environment,
                ops::CollectEnvironment(WholeEnvironment(), scratch));
  NXDKIT_ASSIGN(const std::set<std::string> before, NamesIn(tree));
  context.Note("collecting graphs: " + EscapeControl(CommandText(command)));
  Collection collection;
  Result<ops::ProgramEnd> end = ops::RunCollecting(command, environment, context.poll());
  if (end.ok())
    collection.end = *std::move(end);
  else if (end.error().code() == Errc::kInterrupted)
    collection.interrupted = std::move(end).error();
  else
    return std::move(end).error();
  // Reading them is quick, so an interrupted program's graphs are not lost.
  NXDKIT_TRY(ops::GraphsIn(scratch, nullptr).To(collection.graphs));
  WarnOfLeft(collection.graphs, context);
  if (!collection.graphs.graphs.empty()) return collection;
  NXDKIT_ASSIGN(const std::set<std::string> after, NamesIn(tree));
  std::ranges::set_difference(after, before, std::back_inserter(collection.past));
  if (!collection.past.empty())
    context.Warn(fmt::format(
        "the command wrote no graph to NEURON_COMPILE_CACHE_URL, and {} appeared in {} meanwhile: "
        "it seems to name a cache by itself, and its other graphs are not known",
        Counted(collection.past.size(), "entry"), EscapeControl(tree.root)));
  return collection;
}

Status CheckCommandWords(const CacheArgs& args) {
  if (!args.words.empty()) return OkStatus();
  return BadUsage("{} takes a command", args.command)
      .hint(fmt::format("`neuron-cache {} -- torchrun ... train.py`", args.command));
}

struct Added {
  neff::FoundTree tree;
  ops::ProgramEnd end;
  std::vector<ops::UsedGraph> used;

  uint64_t Count(std::string_view state) const {
    return static_cast<uint64_t>(std::ranges::count(used, state, &ops::UsedGraph::state));
  }
  bool crashed() const { return end.exit_code != 0; }
};

std::string SummaryOf(const Added& added) {
  std::string text =
      fmt::format("{}: {} new, {} with a result", Counted(added.used.size(), "graph"),
                  added.Count("new"), added.Count("there"));
  if (const uint64_t waiting = added.Count("waiting"))
    text += fmt::format(", {} without one", waiting);
  if (const uint64_t failed = added.Count("failed"))
    text += fmt::format(", {} that failed before", failed);
  return text;
}

// A line for each graph that failed before.
std::string FailedText(const Added& added) {
  std::string text;
  for (const ops::UsedGraph& each : added.used)
    if (each.state == "failed")
      text += EscapeControl(fmt::format("failed before, and compile tries it again: {}: {}",
                                        each.entry, each.message)) +
              "\n";
  return text;
}

Result<Added> CollectInto(const CacheArgs& args, const neff::CachePlace& place,
                          ToolContext& context) {
  Added added;
  NXDKIT_ASSIGN(const neff::FoundTree before, TreeOf(place));
  // The folder is inside the cache, so that graphs are moved by a rename.
  NXDKIT_ASSIGN(const ops::ScratchFolder scratch,
                ops::ScratchFolder::Make(place.root, neff::kMergePrefix));
  NXDKIT_ASSIGN(Collection collection, RunWith(scratch.path(), before, args.words, context));
  added.end = collection.end;
  added.tree = before;
  if (collection.past.empty()) added.tree = CacheOf(place.root, collection.graphs);
  NXDKIT_TRY(MakeFolders(added.tree.root));
  NXDKIT_TRY(ops::AddGraphs(collection.graphs, added.tree.root, nullptr).To(added.used));
  for (const std::string& name : collection.past) added.used.push_back({name, "new", ""});
  if (!collection.interrupted) return added;
  context.Note(fmt::format("{}: the graphs traced by then are in the cache", SummaryOf(added)));
  return *std::move(collection.interrupted);
}

std::string CrashText(const Added& added) { return fmt::format("the command {}", added.end.text); }

Json EntriesJson(const std::vector<ops::UsedGraph>& used) {
  Json json = Json::array();
  for (const ops::UsedGraph& each : used)
    json.push_back({{"entry", each.entry},
                    {"state", each.state},
                    {"message", each.message.empty() ? Json() : Json(each.message)}});
  return json;
}

Json CommandJson(const Added& added) {
  return {{"exit_code", added.end.exit_code}, {"end", added.end.text}};
}

void AddFields(const Added& added, ToolAnswer& answer) {
  answer.fields["entries"] = EntriesJson(added.used);
  answer.fields["program"] = CommandJson(added);
  answer.fields["root"] = added.tree.root;
}

ToolAnswer CollectedAnswer(const CacheArgs& args, const Added& added) {
  ToolAnswer answer;
  answer.text = FailedText(added);
  answer.text += fmt::format("{}: {}\n", EscapeControl(added.tree.root), SummaryOf(added));
  if (added.crashed())
    answer.text +=
        fmt::format("{}; the graphs traced by then are in the cache\n", CrashText(added));
  if (added.used.empty()) answer.text += kNoneCollected;
  answer.findings = added.used.empty() || (added.crashed() && !IgnoresErrors(args));
  AddFields(added, answer);
  return answer;
}

Json MissJson(const ops::Miss& miss) {
  return {{"entry", miss.entry},
          {"reason", miss.reason},
          {"message", miss.message},
          {"other", miss.other.empty() ? Json() : Json(miss.other)},
          {"flags_only_here", miss.only_here},
          {"flags_only_there", miss.only_there}};
}

// Compares the graphs of a run with the cache.
Result<ToolAnswer> Compare(const ops::CollectedGraphs& graphs, const std::string& root,
                           const ToolContext& context) {
  NXDKIT_ASSIGN(ops::CacheIndex index, ops::CacheIndex::Open(root, context.poll()));
  ToolAnswer answer;
  Json entries = Json::array();
  Json misses = Json::array();
  for (const neff::Graph& graph : graphs.graphs) {
    NXDKIT_ASSIGN(const std::optional<ops::Miss> miss, index.Explain(graph));
    entries.push_back(
        {{"entry", graph.name}, {"state", miss ? "missing" : "there"}, {"message", nullptr}});
    if (!miss) continue;
    misses.push_back(MissJson(*miss));
    answer.text += EscapeControl("missing: " + miss->entry + ": " + miss->message +
                                 (miss->other.empty() ? "" : ": " + miss->other)) +
                   "\n";
  }
  answer.text +=
      fmt::format("{}: {} of {} {} a result", EscapeControl(root), entries.size() - misses.size(),
                  Counted(entries.size(), "graph"), entries.size() == 1 ? "has" : "have");
  answer.text += misses.empty() ? "\n" : fmt::format(", {} would be compiled\n", misses.size());
  answer.findings = !misses.empty();
  answer.fields = {
      {"entries", std::move(entries)}, {"misses", std::move(misses)}, {"root", index.tree().root}};
  return answer;
}

// The entries that a run used, by their names alone: no program runs.
Result<ops::CollectedGraphs> GraphsUsedBy(const std::string& file, const neff::FoundTree& tree) {
  NXDKIT_ASSIGN(const ops::UsedEntries used, ops::ReadUsedBy(file, tree));
  ops::CollectedGraphs graphs;
  for (const auto* names : {&used.there, &used.missing})
    for (const std::string& name : *names)
      graphs.graphs.push_back({.name = name, .path = {}, .compiler = ParentPath(name)});
  return graphs;
}

// `none`: the sentence for a run without one whole graph.
void AskForGraphs(const ops::CollectedGraphs& graphs, const std::string& none, ToolAnswer& answer) {
  // Whether truncated graphs have a result is unknown.
  answer.findings = answer.findings || !graphs.left.empty();
  if (!graphs.graphs.empty()) return;
  answer.findings = true;
  answer.text = none + answer.text;
}

}  // namespace

Result<ToolAnswer> Collect(const CacheArgs& args, const neff::CachePlace& place,
                           ToolContext& context) {
  NXDKIT_TRY(CheckCommandWords(args));
  NXDKIT_ASSIGN(const Added added, CollectInto(args, place, context));
  return CollectedAnswer(args, added);
}

Result<ToolAnswer> Warm(const CacheArgs& args, const neff::CachePlace& place,
                        ToolContext& context) {
  NXDKIT_TRY(CheckCommandWords(args));
  NXDKIT_TRY(CheckBeforeProgram(args, context.poll()));
  NXDKIT_ASSIGN(const Added added, CollectInto(args, place, context));
  const bool stops = added.used.empty() || (added.crashed() && !IgnoresErrors(args));
  if (stops) {
    ToolAnswer answer = CollectedAnswer(args, added);
    answer.text +=
        "nothing was compiled; `neuron-cache compile` does it, --ignore-error continues\n";
    return answer;
  }
  if (added.crashed()) context.Warn(CrashText(added) + ": compiling the graphs traced by then");
  context.Note(SummaryOf(added));
  std::vector<std::string> wanted;
  for (const ops::UsedGraph& each : added.used) wanted.push_back(each.entry);
  NXDKIT_ASSIGN(ToolAnswer answer, Compile(args, added.tree, wanted, context));
  AddFields(added, answer);
  return answer;
}

Result<ToolAnswer> Check(const CacheArgs& args, const neff::CachePlace& place,
                         ToolContext& context) {
  if (args.used_by && !args.words.empty()) return BadUsage("--used-by replaces a command");
  if (!args.used_by) NXDKIT_TRY(CheckCommandWords(args));
  NXDKIT_ASSIGN(const neff::FoundTree tree, TreeOf(place));
  if (args.used_by) {
    NXDKIT_ASSIGN(const ops::CollectedGraphs graphs, GraphsUsedBy(*args.used_by, tree));
    NXDKIT_ASSIGN(ToolAnswer answer, Compare(graphs, tree.root, context));
    answer.fields["program"] = Json();
    return answer;
  }
  NXDKIT_ASSIGN(const bool is_folder,
                args.words.size() == 1 ? IsFolder(args.words[0]) : Result<bool>(false));
  if (is_folder) {
    NXDKIT_ASSIGN(const ops::CollectedGraphs graphs, ops::GraphsIn(args.words[0], context.poll()));
    WarnOfLeft(graphs, context);
    NXDKIT_ASSIGN(ToolAnswer answer, Compare(graphs, tree.root, context));
    AskForGraphs(graphs, fmt::format("no whole graph is in {}\n", EscapeControl(args.words[0])),
                 answer);
    answer.fields["program"] = Json();
    return answer;
  }
  const std::string said = EnvironmentValue("TMPDIR");
  const std::string temporary = said.empty() ? "/tmp" : said;
  ops::SweepScratchFolders(temporary, ops::kCheckScratch);
  NXDKIT_ASSIGN(const ops::ScratchFolder scratch,
                ops::ScratchFolder::Make(temporary, ops::kCheckScratch));
  NXDKIT_ASSIGN(Collection collection, RunWith(scratch.path(), tree, args.words, context));
  if (collection.interrupted) return *std::move(collection.interrupted);
  NXDKIT_ASSIGN(ToolAnswer answer,
                Compare(collection.graphs, CacheOf(place.root, collection.graphs).root, context));
  AskForGraphs(collection.graphs, kNoneCollected, answer);
  const bool crashed = collection.end.exit_code != 0;
  if (crashed)
    answer.text +=
        fmt::format("the command {}: the graphs after that are not known\n", collection.end.text);
  answer.findings = answer.findings || (crashed && !IgnoresErrors(args));
  answer.fields["program"] = {{"exit_code", collection.end.exit_code},
                              {"end", collection.end.text}};
  return answer;
}

}  // namespace nxdkit::tool
