#include "formats/compile_cache/neff_tree.h"

#include <fmt/core.h>

#include <algorithm>

#include "formats/compile_cache/entry_files.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr size_t kPrefixDigits = 2;
constexpr size_t kNeffKeyDigits = 32;
constexpr size_t kOldKeyDigits = 64;
constexpr std::string_view kNeffSuffix = ".neff";
constexpr std::string_view kNeffAside = ".tmp.";

bool IsPrefix(std::string_view name) { return name.size() == kPrefixDigits && IsLowerHex(name); }
bool IsOldFolder(std::string_view name) { return name.size() == kOldKeyDigits && IsLowerHex(name); }

// The real folders in `folder` with suitable names; all other names are added to `strangers`.
Result<std::vector<std::string>> FoldersIn(const std::string& root, const std::string& folder,
                                           bool (*takes)(std::string_view),
                                           std::vector<std::string>& strangers) {
  std::vector<std::string> found;
  NXDKIT_ASSIGN(const std::vector<FolderEntry> all, ListEntries(JoinPath(root, folder)));
  for (const auto& [name, kind] : all) {
    const std::string path = folder.empty() ? name : JoinPath(folder, name);
    bool is_folder = kind == PathKind::kFolder;
    if (!kind) NXDKIT_TRY(IsRealFolder(JoinPath(root, path)).To(is_folder));
    (takes(name) && is_folder ? found : strangers).push_back(path);
  }
  return found;
}

bool IsTopFolder(std::string_view name) { return IsPrefix(name) || IsOldFolder(name); }

// The path where a reader looks for the key; "" if it is not a key.
std::string PathOfKey(std::string_view key) {
  if (!IsLowerHex(key)) return "";
  if (key.size() == kNeffKeyDigits)
    return fmt::format("{}/{}/{}.neff", key.substr(0, 2), key.substr(2, 2), key);
  return key.size() == kOldKeyDigits ? fmt::format("{0}/{0}.neff", key) : "";
}

// The NEFFs of one folder.
Status AddEntries(const std::string& root, const std::string& folder, CacheListing& listing) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(JoinPath(root, folder)));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (!name.ends_with(kNeffSuffix) || IsNeffTreeAside(name)) {
      listing.strangers.push_back(path);
      continue;
    }
    Result<CacheEntry> entry = ReadNeffEntry(root, path);
    if (!entry.ok() && entry.error().code() == Errc::kNotFound) continue;
    if (!entry.ok() && entry.error().code() != Errc::kUnsupported) return std::move(entry).error();
    if (!entry.ok()) {
      listing.strangers.push_back(path);
      continue;
    }
    listing.bytes += entry->bytes;
    listing.entries.push_back(*std::move(entry));
  }
  return OkStatus();
}

}  // namespace

Result<bool> IsNeffTree(const std::string& root) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListIfThere(root));
  for (const std::string& name : names) {
    if (!IsTopFolder(name)) continue;
    const std::string path = JoinPath(root, name);
    NXDKIT_ASSIGN(const bool folder, IsRealFolder(path));
    if (!folder) continue;
    NXDKIT_ASSIGN(const std::vector<std::string> inner, ListIfThere(path));
    const auto fits = [&](const std::string& each) {
      return IsPrefix(name) ? IsPrefix(each) : each == name + std::string(kNeffSuffix);
    };
    if (std::ranges::any_of(inner, fits)) return true;
  }
  return false;
}

Result<CacheEntry> ReadNeffEntry(const std::string& root, const std::string& name) {
  CacheEntry entry;
  entry.path = JoinPath(root, name);
  entry.module = name;
  entry.payload = BaseName(name);
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(entry.path));
  if (info.kind == PathKind::kMissing)
    return Error(Errc::kNotFound, "there is no such entry").in(entry.path);
  if (info.kind != PathKind::kFile)
    return Error(Errc::kUnsupported, "a link or a folder, expected a file").in(entry.path);
  entry.well_named = PathOfKey(NeffTreeKey(name)) == name;
  entry.state = info.bytes == 0 ? EntryState::kEmpty : EntryState::kDone;
  entry.files = 1;
  entry.bytes = info.bytes;
  entry.used_ns = std::max(info.written_ns, info.read_ns);
  return entry;
}

Result<CacheListing> ListNeffTree(const std::string& root) {
  CacheListing listing;
  listing.root = root;
  NXDKIT_ASSIGN(const std::vector<std::string> tops,
                FoldersIn(root, "", IsTopFolder, listing.strangers));
  for (const std::string& top : tops) {
    if (IsOldFolder(top)) {
      NXDKIT_TRY(AddEntries(root, top, listing));
      continue;
    }
    const Result<std::vector<std::string>> inner =
        FoldersIn(root, top, IsPrefix, listing.strangers);
    if (!inner.ok() && inner.error().code() == Errc::kNotFound) continue;
    if (!inner.ok()) return inner.error();
    for (const std::string& folder : *inner) NXDKIT_TRY(AddEntries(root, folder, listing));
  }
  return listing;
}

std::string NeffTreeKey(std::string_view name) {
  std::string base = BaseName(name);
  if (base.ends_with(kNeffSuffix)) base.resize(base.size() - kNeffSuffix.size());
  return base;
}

bool IsNeffTreeAside(std::string_view base_name) { return base_name.starts_with(kNeffAside); }

Result<std::vector<EntryFault>> VerifyNeffEntry(const CacheEntry& entry,
                                                const std::function<Status()>& poll) {
  std::vector<EntryFault> faults;
  if (!entry.well_named) {
    const std::string path = PathOfKey(NeffTreeKey(entry.module));
    faults.push_back({"", path.empty() ? "the name is not 32 hexadecimal digits and \".neff\""
                                       : "it is looked for at " + path + ", and not found here"});
  }
  if (entry.state == EntryState::kEmpty) {
    faults.push_back({"", "0 bytes: a miss, and compiled again (read from source, not run)"});
    return faults;
  }
  const KeepAccessTime keep(entry.path);
  const Result<std::vector<std::string>> messages = NeffFaults(entry.path, poll);
  if (!messages.ok()) NXDKIT_TRY(KeepFault("", messages.error(), faults));
  if (messages.ok())
    for (const std::string& message : *messages) faults.push_back({"", message});
  return faults;
}

Result<std::vector<std::string>> AbandonedInNeffTree(const CacheListing& listing,
                                                     const TreeMoment& moment) {
  std::vector<std::string> abandoned;
  for (const std::string& name : listing.strangers) {
    if (!IsNeffTreeAside(BaseName(name))) continue;
    NXDKIT_ASSIGN(const PathInfo info, LookAtLink(JoinPath(listing.root, name)));
    if (info.kind == PathKind::kFile &&
        (moment.now_ns - info.written_ns) / kSecondNs >= kPatienceSeconds)
      abandoned.push_back(name);
  }
  return abandoned;
}

}  // namespace nxdkit::neff
