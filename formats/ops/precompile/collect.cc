#include "formats/ops/precompile/collect.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "formats/compile_cache/compiler_options.h"
#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/leftovers.h"
#include "formats/compile_cache/publish.h"
#include "lib/base/errors.h"
#include "lib/system/child.h"
#include "lib/system/command_text.h"
#include "lib/system/folders.h"

namespace nxdkit::ops {
namespace {

constexpr char kFlagsVariable[] = "NEURON_CC_FLAGS";
constexpr char kUrlVariable[] = "NEURON_COMPILE_CACHE_URL";
constexpr const char* kModeVariables[] = {"NEURON_EXTRACT_GRAPHS_ONLY", "NEURON_PARALLEL_COMPILE"};
constexpr auto kProgramGrace = std::chrono::seconds(10);
constexpr auto kProgramStep = std::chrono::milliseconds(100);

void Set(std::vector<std::string>& environment, std::string_view name, const std::string& value) {
  std::erase_if(environment, [&](const std::string& entry) { return VariableName(entry) == name; });
  environment.push_back(fmt::format("{}={}", name, value));
}

std::string ValueOf(const std::vector<std::string>& environment, std::string_view name) {
  for (const std::string& entry : environment)
    if (VariableName(entry) == name) return entry.substr(name.size() + 1);
  return "";
}

// Quoted no more than they have to be: some programs split the flags at spaces alone.
std::string FlagsText(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) {
    const bool plain = !word.empty() && word.find_first_of(" \t\n'\"\\") == std::string::npos;
    text += (text.empty() ? "" : " ") + (plain ? word : CommandText({word}));
  }
  return text;
}

// A lock in a cache of our own is nobody's once the program has ended.
Status RemoveLocks(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names)
    if (name.ends_with(".lock")) NXDKIT_TRY(RemoveTree(JoinPath(folder, name)));
  return OkStatus();
}

// The state of the entry that the cache has under this name.
Result<std::string> StateThere(const neff::FoundTree& tree, const std::string& name) {
  NXDKIT_ASSIGN(const neff::CacheEntry entry,
                neff::ReadEntryOf(tree, name, neff::MomentOf(tree.root)));
  NXDKIT_ASSIGN(const std::optional<neff::Graph> graph, neff::GraphOfEntry(tree, entry));
  if (entry.state == neff::EntryState::kDone || (graph && graph->has_result))
    return std::string("there");
  return std::string(entry.state == neff::EntryState::kFailed ? "failed" : "waiting");
}

// Files of the graph that an entry without one is to have: somebody began it, and came no further.
Status FillEntry(const neff::Graph& graph, const std::string& target) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(graph.path));
  // The graph last: it is what makes it one.
  for (const bool is_graph : {false, true})
    for (const std::string& name : names)
      if ((name == graph.file) == is_graph)
        NXDKIT_TRY(neff::PublishNew(JoinPath(graph.path, name), JoinPath(target, name)));
  return OkStatus();
}

Result<bool> HasGraph(const neff::FoundTree& tree, const std::string& name) {
  NXDKIT_ASSIGN(const neff::CacheEntry entry,
                neff::ReadEntryOf(tree, name, neff::MomentOf(tree.root)));
  if (entry.state == neff::EntryState::kDone) return true;
  const Result<std::optional<neff::Graph>> graph = neff::GraphOfEntry(tree, entry);
  if (!graph.ok() && graph.error().code() == Errc::kIo) return graph.error();
  return graph.ok() && graph->has_value();
}

}  // namespace

Result<std::vector<std::string>> CollectEnvironment(std::vector<std::string> environment,
                                                    const std::string& root) {
  for (const char* name : kModeVariables) Set(environment, name, "1");
  Set(environment, kUrlVariable, root);
  const std::string flags = ValueOf(environment, kFlagsVariable);
  if (flags.find_first_not_of(" \t\n") == std::string::npos) return environment;
  const Result<std::vector<std::string>> words = SplitCommand(flags);
  if (!words.ok()) return BadUsage("{}: {}", kFlagsVariable, words.error().message());
  if (std::ranges::find(*words, "--no_cache") != words->end())
    return BadUsage("{} says --no_cache: no graph is written with it", kFlagsVariable);
  constexpr std::string_view kDir = "--cache_dir";
  if (!neff::OptionValue(*words, {kDir})) return environment;
  std::vector<std::string> others = neff::WithoutOption(*words, kDir);
  others.push_back(fmt::format("{}={}", kDir, root));
  Set(environment, kFlagsVariable, FlagsText(others));
  return environment;
}

Result<ScratchCache> ScratchCache::Make(const std::string& parent) {
  NXDKIT_TRY(MakeFolders(parent));
  NXDKIT_ASSIGN(const std::string real, RealPath(parent));
  const std::string path = JoinPath(real, neff::AsideName(neff::kMergePrefix));
  NXDKIT_TRY(MakeFolders(path));
  return ScratchCache(path);
}

ScratchCache::~ScratchCache() {
  if (!path_.empty()) (void)RemoveTree(path_).ok();
}

Result<ProgramEnd> RunCollecting(const std::vector<std::string>& command,
                                 const std::vector<std::string>& environment,
                                 const std::function<Status()>& poll) {
  const std::optional<std::string> program = FindProgram(command.at(0));
  if (!program) return BadUsage("no such program, or it may not be executed").in(command[0]);
  const Descriptor nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  Result<Process> started = Process::Start({.program = *program,
                                            .words = command,
                                            .environment = environment,
                                            .in = nothing.fd(),
                                            .out = STDERR_FILENO,
                                            .err = STDERR_FILENO,
                                            .folder = {},
                                            .signal_with_parent = SIGTERM});
  if (!started.ok()) return BadUsage("{}", started.error().message()).in(command[0]);
  const std::optional<Keeper> keeper = Keeper::Start(*started);
  while (!started->WaitForEnd(kProgramStep)) {
    const Status asked = poll ? poll() : OkStatus();
    if (asked.ok()) continue;
    started->End(kProgramGrace);
    return asked.error();
  }
  started->Kill();  // what it left running
  if (poll) NXDKIT_TRY(poll());
  return ProgramEnd{started->exit_code(), started->EndText()};
}

Result<CollectedGraphs> GraphsIn(const std::string& root, const std::function<Status()>& poll) {
  CollectedGraphs collected;
  NXDKIT_TRY(neff::FindTree(root).To(collected.tree));
  if (collected.tree.is_empty) return collected;
  if (collected.tree.kind != neff::TreeKind::kXla)
    return Unsupported("a tree of {}, which is not collected", neff::TreeName(collected.tree.kind))
        .in(root);
  NXDKIT_ASSIGN(const neff::CacheListing listing,
                neff::ListTreeOf(collected.tree, neff::MomentOf(root)));
  for (const neff::CacheEntry& entry : listing.entries) {
    if (poll) NXDKIT_TRY(poll());
    const Result<std::optional<neff::Graph>> graph = neff::GraphOfEntry(collected.tree, entry);
    if (graph.ok() && !*graph) continue;
    const Status whole = graph.ok() ? neff::CheckGraph(**graph) : Status(graph.error());
    if (!whole.ok() && whole.error().code() == Errc::kIo) return whole.error();
    if (whole.ok())
      collected.graphs.push_back(**graph);
    else
      collected.left.push_back({neff::EntryName(entry), whole.error().message()});
  }
  return collected;
}

Result<std::vector<UsedGraph>> AddGraphs(const CollectedGraphs& collected, const std::string& root,
                                         const std::function<Status()>& poll) {
  const neff::FoundTree tree{root, neff::TreeKind::kXla, false};
  std::vector<UsedGraph> used(collected.graphs.size());
  neff::Batch batch(root);
  for (size_t i = 0; i < used.size(); ++i) {
    if (poll) NXDKIT_TRY(poll());
    const neff::Graph& graph = collected.graphs[i];
    used[i].entry = graph.name;
    NXDKIT_TRY(RemoveLocks(graph.path));
    const std::string target = JoinPath(root, graph.name);
    NXDKIT_TRY(MakeFolders(ParentPath(target)));
    NXDKIT_TRY(batch.Add(graph.path, graph.bytes, ParentPath(target),
                         [&, target, to = &used[i].state]() -> Status {
                           NXDKIT_ASSIGN(const bool is_new, neff::PublishNew(graph.path, target));
                           *to = "new";
                           if (is_new) return OkStatus();
                           NXDKIT_ASSIGN(const bool has_graph, HasGraph(tree, graph.name));
                           if (has_graph) return StateThere(tree, graph.name).To(*to);
                           return FillEntry(graph, target);
                         }));
  }
  NXDKIT_TRY(batch.Flush());
  return used;
}

}  // namespace nxdkit::ops
