#include "tools/cache/look.h"

#include <fmt/core.h>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/known_roots.h"
#include "formats/ops/verify/blob.h"
#include "lib/base/text.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/process.h"
#include "tools/cli/terminal.h"

namespace nxdkit::tool {
namespace {

constexpr char kNotRun[] = "the contents of such a tree are known from the engine's source only";

Json EntryJson(const neff::CacheEntry& entry) {
  return {{"name", neff::EntryName(entry)},
          {"compiler", entry.compiler.empty() ? Json() : Json(entry.compiler)},
          {"module", entry.module},
          {"state", neff::StateName(entry.state)},
          {"payload", entry.payload.empty() ? Json() : Json(entry.payload)},
          {"files", entry.files},
          {"bytes", entry.bytes},
          {"used_ns", entry.used_ns}};
}

// The engines' trees at their default places, for a user who did not name one.
Result<Json> OtherTrees(const CacheArgs& args, const neff::FoundTree& tree, std::string& text) {
  Json others = Json::array();
  if (args.cache_dir) return others;
  NXDKIT_ASSIGN(const std::vector<neff::FoundTree> found,
                neff::TreesOfThisMachine(EnvironmentValue));
  for (const neff::FoundTree& other : found) {
    if (other.root == tree.root) continue;
    others.push_back({{"root", other.root}, {"tree", neff::TreeName(other.kind)}});
    text += fmt::format("also there: {} ({}); --cache-dir names it\n", EscapeControl(other.root),
                        neff::TreeName(other.kind));
  }
  return others;
}

Result<ToolAnswer> List(const CacheArgs& args, const neff::FoundTree& tree,
                        const neff::CacheListing& listing) {
  constexpr size_t kLeastName = 20;
  const auto columns = static_cast<size_t>(StdoutColumns());
  std::string text;
  Json entries = Json::array();
  for (const neff::CacheEntry& entry : listing.entries) {
    entries.push_back(EntryJson(entry));
    const std::string front =
        fmt::format("{:<7} {:>9}  ", neff::StateName(entry.state), HumanBytes(entry.bytes));
    const std::string name = EscapeControl(neff::EntryName(entry));
    const size_t room = columns > front.size() + kLeastName ? columns - front.size() : kLeastName;
    text += front + (columns > 0 ? ShortenMiddle(name, room) : name) + "\n";
  }
  const std::string of =
      tree.kind == neff::TreeKind::kXla ? "" : fmt::format(" of {}", neff::TreeName(tree.kind));
  text += fmt::format("{}: {}{}, {}\n", EscapeControl(listing.root),
                      Counted(listing.entries.size(), "entry"), of, HumanBytes(listing.bytes));
  NXDKIT_ASSIGN(const Json others, OtherTrees(args, tree, text));
  return ToolAnswer{text,
                    {{"entries", std::move(entries)},
                     {"bytes", listing.bytes},
                     {"strangers", listing.strangers},
                     {"others", others}}};
}

std::string PlaceOf(const neff::TreeFault& fault) {
  if (fault.entry.empty() || fault.file.empty()) return fault.entry + fault.file;
  return JoinPath(fault.entry, fault.file);
}

Result<ToolAnswer> VerifyAll(const neff::FoundTree& tree, const neff::CacheListing& listing,
                             const neff::TreeMoment& moment, const ToolContext& context) {
  NXDKIT_ASSIGN(const neff::TreeCheck check,
                neff::VerifyTree(tree.kind, listing, moment, {context.poll(), ops::BlobFaults}));
  ToolAnswer answer;
  Json findings = Json::array();
  Json remarks = Json::array();
  for (const neff::TreeFault& fault : check.faults) {
    const bool remark = fault.severity == neff::Severity::kRemark;
    answer.text += remark ? "warning: " : "WRONG: ";
    answer.text += EscapeControl(PlaceOf(fault) + ": " + fault.message) + "\n";
    (remark ? remarks : findings)
        .push_back({{"entry", fault.entry.empty() ? Json() : Json(fault.entry)},
                    {"file", fault.file.empty() ? Json() : Json(fault.file)},
                    {"message", fault.message}});
  }
  answer.findings = !findings.empty();
  answer.text += fmt::format("{}: {} finished of {} checked, {}\n", EscapeControl(listing.root),
                             Grouped(check.checked), Counted(listing.entries.size(), "entry"),
                             Counted(findings.size(), "finding"));
  const bool read_only = tree.kind != neff::TreeKind::kXla;
  if (read_only)
    answer.text += fmt::format("a tree of {}: {}\n", neff::TreeName(tree.kind), kNotRun);
  answer.fields = {{"entries_checked", check.checked},
                   {"entries_total", listing.entries.size()},
                   {"findings", std::move(findings)},
                   {"remarks", std::move(remarks)},
                   {"note", read_only ? Json(kNotRun) : Json()}};
  return answer;
}

}  // namespace

Result<bool> IsNotMadeYet(const CacheArgs& args, const std::string& root) {
  NXDKIT_ASSIGN(const bool there, IsThere(root));
  return !args.cache_dir && !there;
}

Result<std::string> FolderOf(const neff::CachePlace& place) {
  if (place.root.find("://") == std::string::npos) return place.root;
  return Error(Errc::kUnsupported, place.disabled_because).hint("name a folder with --cache-dir");
}

Result<ToolAnswer> LookAtCache(const CacheArgs& args, const neff::FoundTree& tree,
                               const ToolContext& context) {
  neff::CacheListing listing;
  listing.root = tree.root;
  const neff::TreeMoment moment = neff::MomentOf(tree.root);
  NXDKIT_ASSIGN(const bool not_made_yet, IsNotMadeYet(args, tree.root));
  if (!not_made_yet) NXDKIT_TRY(neff::ListTreeOf(tree, moment).To(listing));
  if (args.command == "ls") return List(args, tree, listing);
  if (not_made_yet)
    return VerifyAll({tree.root, neff::TreeKind::kXla, true}, listing, moment, context);
  return VerifyAll(tree, listing, moment, context);
}

Json TreeJson(const neff::FoundTree& tree) {
  return tree.is_empty ? Json() : Json(neff::TreeName(tree.kind));
}

}  // namespace nxdkit::tool
