#include "formats/compile_cache/known_roots.h"

#include <algorithm>

#include "formats/compile_cache/neff_tree.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"

namespace nxdkit::neff {
namespace {

std::vector<std::string> LiteRoots(const VariableReader& variable) {
  std::vector<std::string> folders;
  const std::string home = variable("HOME");
  const auto add = [&](const char* name, const char* below_home) {
    const std::string value = variable(name);
    if (!value.empty())
      folders.push_back(value);
    else if (!home.empty())
      folders.push_back(JoinPath(home, below_home));
  };
  add("VLLM_CACHE_ROOT", ".cache/vllm");
  add("NEURON_LIBTORCH_CACHE_ROOT", ".cache/neuron_libtorch");
  // The engine uses this one where the home folder is on NFS.
  const std::string user = variable("USER");
  if (!user.empty()) folders.push_back("/tmp/vllm_neuron_wdir_" + user);
  for (std::string& folder : folders) folder = JoinPath(folder, kBelowVariable);
  return folders;
}

}  // namespace

std::vector<std::string> KnownRoots(TreeKind kind, const VariableReader& variable) {
  if (kind == TreeKind::kXla) return {};
  if (kind == TreeKind::kLite) return LiteRoots(variable);
  const std::string value = variable("TORCH_NEURONX_NEFF_CACHE_DIR");
  return {value.empty() ? "/tmp/neff_cache" : value};
}

Result<std::vector<FoundTree>> TreesOfThisMachine(const VariableReader& variable) {
  std::vector<FoundTree> found;
  for (const TreeKind kind : kTreeKinds)
    for (const std::string& root : KnownRoots(kind, variable)) {
      // This is a hint, so folders that cannot be read are skipped.
      if (KindForHint(root) != PathKind::kFolder) continue;
      const Result<FoundTree> tree = FindTree(root);
      const bool known = std::ranges::find(found, root, &FoundTree::root) != found.end();
      if (tree.ok() && !tree->is_empty && tree->kind == kind && !known) found.push_back(*tree);
    }
  return found;
}

std::string NeffTreeLocks(const VariableReader& variable) {
  const std::string value = variable("TORCH_NEURONX_NEFF_LOCAL_CACHE_DIR");
  return value.empty() ? kNeffTreeLocks : JoinPath(value, "locks");
}

}  // namespace nxdkit::neff
