#include "formats/compile_cache/tree.h"

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/lite_verify.h"
#include "formats/compile_cache/neff_tree.h"
#include "formats/compile_cache/place.h"
#include "lib/base/errors.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

// One tree's functions.
struct TreeRow {
  std::string_view name;
  Result<bool> (*recognise)(const std::string& root);
  Result<CacheListing> (*list)(const std::string& root, const TreeMoment& moment);
  Result<CacheEntry> (*read)(const std::string& root, const std::string& name,
                             const TreeMoment& moment);
  Result<std::vector<EntryFault>> (*verify)(const CacheEntry& entry,
                                            const TreeCheckOptions& options, BinaryLooker* kernels);
  // Faults of files outside entries.
  Result<std::vector<EntryFault>> (*beside)(const CacheListing& listing, const TreeMoment& moment,
                                            const TreeCheckOptions& options, BinaryLooker& kernels);
};

constexpr TreeRow kXlaRow = {
    "libneuronxla",
    [](const std::string& root) { return LooksLikeCache(root); },
    [](const std::string& root, const TreeMoment&) { return ListCache(root); },
    [](const std::string& root, const std::string& name, const TreeMoment&) {
      return ReadEntry(JoinPath(root, name));
    },
    [](const CacheEntry& entry, const TreeCheckOptions& options, BinaryLooker*) {
      return VerifyEntry(entry, options.poll, options.check_blob);
    },
    [](const CacheListing&, const TreeMoment&, const TreeCheckOptions&,
       BinaryLooker&) -> Result<std::vector<EntryFault>> { return std::vector<EntryFault>(); }};

constexpr TreeRow kLiteRow = {
    "vllm-neuron",
    IsLiteTree,
    ListLiteTree,
    ReadLiteEntry,
    [](const CacheEntry& entry, const TreeCheckOptions& options, BinaryLooker* kernels) {
      return VerifyLiteEntry(entry, options.poll, kernels);
    },
    [](const CacheListing& listing, const TreeMoment& moment, const TreeCheckOptions& options,
       BinaryLooker& kernels) { return VerifyBesideLite(listing, moment, kernels, options.poll); }};

constexpr TreeRow kNeffRow = {
    "torch-neuronx",
    IsNeffTree,
    [](const std::string& root, const TreeMoment&) { return ListNeffTree(root); },
    [](const std::string& root, const std::string& name, const TreeMoment&) {
      return ReadNeffEntry(root, name);
    },
    [](const CacheEntry& entry, const TreeCheckOptions& options, BinaryLooker*) {
      return VerifyNeffEntry(entry, options.poll);
    },
    [](const CacheListing& listing, const TreeMoment& moment, const TreeCheckOptions&,
       BinaryLooker&) -> Result<std::vector<EntryFault>> {
      std::vector<EntryFault> faults;
      NXDKIT_ASSIGN(const std::vector<std::string> names, AbandonedInNeffTree(listing, moment));
      for (const std::string& name : names)
        faults.push_back({name, "a leftover of a dead process"});
      return faults;
    }};

const TreeRow& RowOf(TreeKind kind) {
  constexpr const TreeRow* kRows[] = {&kXlaRow, &kLiteRow, &kNeffRow};
  return *kRows[static_cast<size_t>(kind)];
}

// nullopt: nothing in the folder belongs to a tree.
Result<std::optional<FoundTree>> TreeAt(const std::string& root) {
  std::optional<FoundTree> found;
  for (const TreeKind kind : kTreeKinds) {
    NXDKIT_ASSIGN(const bool is_one, RowOf(kind).recognise(root));
    if (!is_one) continue;
    if (!found)
      found = FoundTree{root, kind, false};
    else if (!found->also)
      found->also = kind;
  }
  return found;
}

}  // namespace

std::string_view TreeName(TreeKind kind) { return RowOf(kind).name; }

Result<FoundTree> FindTree(const std::string& path) {
  NXDKIT_ASSIGN(FoundTree tree, FindTreeToWrite(path));
  if (!tree.is_empty) return tree;
  NXDKIT_ASSIGN(const std::string root, RootToRead(path));
  if (root == path) return tree;
  return FoundTree{.root = root, .is_old_place = true};
}

Result<FoundTree> FindTreeToWrite(const std::string& path) {
  for (const std::string& root : {path, JoinPath(path, kBelowVariable)}) {
    NXDKIT_ASSIGN(std::optional<FoundTree> tree, TreeAt(root));
    if (!tree) continue;
    if (tree->kind != TreeKind::kXla) NXDKIT_TRY(CheckNotMixed(*tree));
    return *std::move(tree);
  }
  return FoundTree{path, TreeKind::kXla, true};
}

Status CheckNotMixed(const FoundTree& tree) {
  if (!tree.also) return OkStatus();
  return Unsupported("entries of {} and of {} in one folder", TreeName(tree.kind),
                     TreeName(*tree.also))
      .in(tree.root)
      .hint("give each a folder of its own");
}

Result<CacheListing> ListTreeOf(const FoundTree& tree, const TreeMoment& moment) {
  return RowOf(tree.kind).list(tree.root, moment);
}

Result<TreeCheck> VerifyTree(TreeKind kind, const CacheListing& listing, const TreeMoment& moment,
                             const TreeCheckOptions& options) {
  TreeCheck check;
  BinaryLooker kernels;
  for (const CacheEntry& entry : listing.entries) {
    if (options.poll) NXDKIT_TRY(options.poll());
    const bool finished = entry.state == EntryState::kDone;
    if (entry.state == EntryState::kLocked || (kind == TreeKind::kXla && !finished)) continue;
    check.checked += finished;
    Result<std::vector<EntryFault>> faults = RowOf(kind).verify(entry, options, &kernels);
    // It may disappear while others are read.
    if (!faults.ok() && faults.error().code() == Errc::kNotFound) continue;
    if (!faults.ok()) return std::move(faults).error();
    for (EntryFault& fault : *faults)
      check.faults.push_back(
          {EntryName(entry), std::move(fault.file), std::move(fault.message), fault.severity});
  }
  NXDKIT_ASSIGN(std::vector<EntryFault> beside,
                RowOf(kind).beside(listing, moment, options, kernels));
  for (EntryFault& fault : beside)
    check.faults.push_back({"", std::move(fault.file), std::move(fault.message), fault.severity});
  return check;
}

Result<CacheEntry> ReadEntryOf(const FoundTree& tree, const std::string& name,
                               const TreeMoment& moment) {
  return RowOf(tree.kind).read(tree.root, name, moment);
}

Result<std::vector<EntryFault>> VerifyEntryOf(TreeKind kind, const CacheEntry& entry,
                                              const TreeCheckOptions& options) {
  return RowOf(kind).verify(entry, options, nullptr);
}

}  // namespace nxdkit::neff
