#include <algorithm>
#include <set>

#include "formats/compile_cache/compile_result.h"
#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/neff/header.h"
#include "formats/ops/precompile/compile_graphs.h"
#include "lib/base/errors.h"
#include "lib/system/file.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

constexpr std::string_view kCompilerPrefix = "neuronxcc-";

bool IsOfCompiler(const neff::Graph& graph, const GraphCompiler& compiler) {
  if (graph.compiler.empty() || compiler.version.empty()) return true;
  return graph.compiler == std::string(kCompilerPrefix) + compiler.version;
}

constexpr uint64_t kMostAsked = 16;  // finished entries: each is a file to open

// Records the compiler's version from the NEFF of a vLLM Neuron tree, if it is another one.
void TakeBuild(const neff::Graph& graph, const GraphCompiler& compiler, CompilePlan& plan) {
  if (plan.tree.kind != neff::TreeKind::kLite || plan.finished > kMostAsked) return;
  const Result<File> file = File::OpenRead(JoinPath(graph.path, neff::LiteNeffName(graph.name)));
  if (!file.ok() || compiler.version.empty()) return;
  const Result<neff::Located> neff = neff::ReadAt(*file, 0, file->bytes());
  if (!neff.ok() || neff->header.build.empty() || neff->header.build == compiler.version) return;
  if (std::ranges::find(plan.other_builds, neff->header.build) == plan.other_builds.end())
    plan.other_builds.push_back(neff->header.build);
}

void TakeFinished(const neff::Graph& graph, const GraphCompiler& compiler, CompilePlan& plan) {
  if (!IsOfCompiler(graph, compiler)) {
    plan.finished_other.push_back(graph.name);
    return;
  }
  ++plan.finished;
  TakeBuild(graph, compiler, plan);
  if (graph.has_lock) plan.locked.push_back(graph.path);
  const std::optional<double> seconds = neff::NotedSeconds(graph.path);
  if (!seconds) return;
  plan.saved_seconds += *seconds;
  ++plan.noted;
}

void TakeEntry(const neff::CacheEntry& entry, const GraphCompiler& compiler, CompilePlan& plan) {
  const Result<std::optional<neff::Graph>> graph = neff::GraphOfEntry(plan.tree, entry);
  if (!graph.ok()) {
    const bool went = KindForHint(entry.path) == PathKind::kMissing;  // removed meanwhile
    if (!went) plan.left.push_back({neff::EntryName(entry), graph.error().ToString()});
    return;
  }
  if (!*graph) return;
  if ((*graph)->has_result) {
    TakeFinished(**graph, compiler, plan);
  } else if (IsOfCompiler(**graph, compiler)) {
    plan.failed_before += (*graph)->state == neff::EntryState::kFailed;
    plan.graphs.push_back(**graph);
  } else {
    plan.other.push_back((*graph)->name);
  }
}

}  // namespace

Result<CompilePlan> PlanCompile(const neff::FoundTree& tree, const GraphCompiler& compiler,
                                const std::optional<std::vector<std::string>>& wanted,
                                const std::function<Status()>& poll) {
  if (tree.kind == neff::TreeKind::kNeff)
    return Unsupported("a tree of {} has no graphs", neff::TreeName(tree.kind)).in(tree.root);
  CompilePlan plan;
  plan.tree = tree;
  plan.is_of_run = wanted.has_value();
  NXDKIT_ASSIGN(const bool there, IsFolder(tree.root));
  if (!there) return plan;
  NXDKIT_ASSIGN(const neff::CacheListing listing,
                neff::ListTreeOf(tree, neff::MomentOf(tree.root)));
  std::set<std::string> missing;
  if (wanted) missing.insert(wanted->begin(), wanted->end());
  for (const neff::CacheEntry& entry : listing.entries) {
    if (poll) NXDKIT_TRY(poll());
    if (wanted && missing.erase(neff::EntryName(entry)) == 0) continue;
    TakeEntry(entry, compiler, plan);
  }
  for (const std::string& name : missing)
    plan.left.push_back({name, "it is not among the entries of the cache: a link, perhaps"});
  std::ranges::stable_sort(
      plan.graphs, [](const neff::Graph& a, const neff::Graph& b) { return a.bytes > b.bytes; });
  return plan;
}

}  // namespace nxdkit::ops
