#include "formats/ops/precompile/used_by.h"

#include <algorithm>
#include <set>

#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "lib/system/lines.h"
#include "lib/system/paths.h"

namespace nxdkit::ops {
namespace {

constexpr uint64_t kMaxReportBytes = uint64_t{256} << 20;
constexpr uint64_t kMaxLineBytes = 16 << 20;
constexpr std::string_view kCompiler = "neuronxcc-";
constexpr std::string_view kModule = "MODULE_";
constexpr std::string_view kModelPrefix = "model.";

using Names = std::set<std::string, std::less<>>;

bool IsWord(char c) {
  return IsAlnum(c) || c == '_' || c == '+' || c == '-' || c == '.' || c == '/';
}

// "neuronxcc-2.21/MODULE_x+y" of ".../neuronxcc-2.21/MODULE_x+y/model.neff"; without a compiler
// only the module; a key of 32 digits. The path after the name is ignored.
void TakeWord(std::string_view word, Names& names) {
  const std::vector<std::string_view> parts = Split(word, '/');
  for (size_t i = 0; i < parts.size(); ++i) {
    std::string_view part = parts[i];
    // "model.MODULE_x+y.hlo_module.pb": a file in the compiler's work folder.
    if (part.starts_with(kModelPrefix)) part.remove_prefix(kModelPrefix.size());
    if (part.starts_with(kModule) && part.find('+') != std::string_view::npos) {
      const std::string module(part.substr(0, part.find('.')));
      const bool has_compiler = i > 0 && parts[i - 1].starts_with(kCompiler);
      names.insert(has_compiler ? JoinPath(parts[i - 1], module) : module);
    }
    if (neff::IsLiteKey(part)) names.insert(std::string(part));
  }
}

void TakeLine(std::string_view line, Names& names) {
  for (size_t at = 0; at < line.size();) {
    if (!IsWord(line[at])) {
      ++at;
      continue;
    }
    size_t end = at;
    while (end < line.size() && IsWord(line[end])) ++end;
    TakeWord(line.substr(at, end - at), names);
    at = end;
  }
}

// A module without its compiler adds nothing if another place names both.
void DropHalfNames(Names& names) {
  const Names all = names;
  for (const std::string& name : all)
    if (name.find('/') != std::string::npos) names.erase(BaseName(name));
}

// Whether it is one of our documents; then its entries are taken, but not those in its
// explanations.
bool TakeReport(const std::string& path, Names& names) {
  const Result<std::string> text = ReadSmallFile(path, kMaxReportBytes);
  if (!text.ok() || !text->starts_with('{')) return false;
  const Result<Json> json = ParseJson(*text, kLikePython);
  if (!json.ok()) return false;
  const Json* entries = JsonFind(*json, "entries");
  if (entries == nullptr || !entries->is_array()) return false;
  for (const Json& entry : *entries)
    for (const char* key : {"entry", "name"})
      if (const Json* name = JsonFind(entry, key); name != nullptr && name->is_string())
        names.insert(name->get<std::string>());
  return true;
}

}  // namespace

Result<UsedEntries> ReadUsedBy(const std::string& path, const neff::FoundTree& tree) {
  Names names;
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  if (!TakeReport(path, names))
    NXDKIT_TRY(ForEachLine(file, kMaxLineBytes, [&](std::string_view line, uint64_t, bool) {
      TakeLine(line, names);
      return OkStatus();
    }));
  DropHalfNames(names);
  if (names.empty()) return Corrupt("it names no entry of a compile cache").in(path);
  NXDKIT_ASSIGN(const neff::CacheListing listing,
                neff::ListTreeOf(tree, neff::MomentOf(tree.root)));
  UsedEntries used;
  Names found;
  for (const neff::CacheEntry& entry : listing.entries) {
    const std::string name = neff::EntryName(entry);
    // A module without its compiler stands for all of that name.
    const bool whole = names.contains(name);
    if (!whole && !names.contains(entry.module)) continue;
    used.there.push_back(name);
    found.insert(whole ? name : entry.module);
  }
  std::ranges::set_difference(names, found, std::back_inserter(used.missing));
  return used;
}

}  // namespace nxdkit::ops
