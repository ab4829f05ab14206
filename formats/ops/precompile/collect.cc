#include "formats/ops/precompile/collect.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "formats/compile_cache/compile_result.h"
#include "formats/compile_cache/compiler_options.h"
#include "formats/compile_cache/entry_files.h"
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

// A word of a command as written, with its quotes.
struct Token {
  size_t begin = 0, end = 0;
};

std::vector<Token> TokensOf(const std::string& text) {
  std::vector<Token> tokens;
  char quote = 0;
  bool inside = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const bool space = quote == 0 && (c == ' ' || c == '\t' || c == '\n');
    if (!space && !inside) tokens.push_back({i, i});
    inside = !space;
    if (inside) tokens.back().end = i + 1;
    if (quote == 0 && (c == '\'' || c == '"'))
      quote = c;
    else if (c == quote)
      quote = 0;
  }
  return tokens;
}

// The flags with another cache; every other character stays, because programs split them
// differently.
Result<std::string> WithCacheDir(std::string flags, const std::string& root) {
  constexpr std::string_view kDir = "--cache_dir";
  const std::vector<Token> tokens = TokensOf(flags);
  for (size_t i = tokens.size(); i-- > 0;) {
    const Token& token = tokens[i];
    const std::string raw = flags.substr(token.begin, token.end - token.begin);
    NXDKIT_ASSIGN(const std::vector<std::string> word, SplitCommand(raw));
    const std::string value = fmt::format("{}={}", kDir, root);
    if (word[0].starts_with(std::string(kDir) + "="))
      flags.replace(token.begin, raw.size(), value);
    else if (word[0] == kDir && i + 1 < tokens.size())
      flags.replace(token.begin, tokens[i + 1].end - token.begin, value);
  }
  return flags;
}

// Removes all but the graph and its flags. The rest are locks, which nobody holds once the program
// has ended, and files that do not count in this mode; but a real result stays.
Status RemoveAllElse(const neff::Graph& graph) {
  if (graph.state == neff::EntryState::kDone) return OkStatus();
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(graph.path));
  for (const std::string& name : names)
    if (name != graph.file && name != neff::kFlagsFile && name != neff::kOldFlagsFile)
      NXDKIT_TRY(RemoveTree(JoinPath(graph.path, name)));
  return OkStatus();
}

// Gives an entry that has no graph, or a truncated one, the files of a complete one. False: another
// process is at work on it.
Result<bool> FillEntry(const neff::FoundTree& tree, const neff::Graph& graph) {
  const std::string target = JoinPath(tree.root, graph.name);
  neff::Graph there = graph;
  there.path = target;
  NXDKIT_ASSIGN(const std::optional<neff::CompileHold> hold,
                neff::CompileHold::Try(tree, there, neff::MomentOf(tree.root)));
  if (!hold) return false;
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(graph.path));
  // The graph last: with it the entry is complete.
  for (const bool is_graph : {false, true})
    for (const std::string& name : names)
      if ((name == graph.file) == is_graph)
        NXDKIT_TRY(neff::PublishOver(JoinPath(graph.path, name), JoinPath(target, name)));
  NXDKIT_TRY(SyncFolder(target));
  return true;
}

// The state of the graph's entry in the cache.
Result<UsedGraph> LookThere(const neff::FoundTree& tree, const std::string& name) {
  UsedGraph used{name, "cut", ""};
  NXDKIT_ASSIGN(const neff::CacheEntry entry,
                neff::ReadEntryOf(tree, name, neff::MomentOf(tree.root)));
  const Result<std::optional<neff::Graph>> graph = neff::GraphOfEntry(tree, entry);
  if (!graph.ok() && graph.error().code() == Errc::kIo) return graph.error();
  const bool has_graph = graph.ok() && *graph;
  if (entry.state == neff::EntryState::kDone || (has_graph && (*graph)->has_result)) {
    used.state = "there";
    return used;
  }
  if (!has_graph || !neff::CheckGraph(**graph).ok()) return used;
  used.state = "waiting";
  if (entry.state != neff::EntryState::kFailed) return used;
  used.state = "failed";
  used.message = TellingLineOf(JoinPath(entry.path, neff::kFailureFile));
  return used;
}

Result<UsedGraph> AddGraph(const neff::FoundTree& tree, const neff::Graph& graph) {
  NXDKIT_ASSIGN(const bool is_new, neff::PublishNew(graph.path, JoinPath(tree.root, graph.name)));
  if (is_new) return UsedGraph{graph.name, "new", ""};
  NXDKIT_ASSIGN(UsedGraph used, LookThere(tree, graph.name));
  if (used.state != "cut") return used;
  NXDKIT_ASSIGN(const bool filled, FillEntry(tree, graph));
  used.state = filled ? "new" : "waiting";
  return used;
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
  if (!neff::OptionValue(*words, {"--cache_dir"})) return environment;
  NXDKIT_ASSIGN(const std::string changed, WithCacheDir(flags, root));
  Set(environment, kFlagsVariable, changed);
  return environment;
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
  started->Kill();  // with processes that it left running
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
    NXDKIT_TRY(RemoveAllElse(graph));
    const std::string target = JoinPath(root, graph.name);
    NXDKIT_TRY(MakeFolders(ParentPath(target)));
    NXDKIT_TRY(batch.Add(graph.path, graph.bytes, ParentPath(target),
                         [&tree, &graph, to = &used[i]] { return AddGraph(tree, graph).To(*to); }));
  }
  NXDKIT_TRY(batch.Flush());
  return used;
}

}  // namespace nxdkit::ops
