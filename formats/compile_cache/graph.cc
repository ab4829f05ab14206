#include "formats/compile_cache/graph.h"

#include <algorithm>
#include <array>

#include "formats/compile_cache/compiler_options.h"
#include "formats/compile_cache/entry_files.h"
#include "formats/compile_cache/hlo_module.h"
#include "formats/compile_cache/lite_metadata.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/base/errors.h"
#include "lib/compress/decompressor.h"
#include "lib/hash/digest.h"
#include "lib/json/json.h"
#include "lib/system/command_text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr uint64_t kMaxFlagsBytes = 1 << 20;
constexpr uint64_t kMaxUnpackedBytes = uint64_t{2} << 30;  // protobuf has no larger messages
constexpr std::string_view kPackedSuffix = ".gz";
constexpr std::string_view kCompile = "compile";

// Passes on the bytes of the graph, unpacked.
Status ReadGraphBytes(const Graph& graph,
                      const std::function<Status(std::span<const std::byte>)>& take) {
  const std::string path = JoinPath(graph.path, graph.file);
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  uint64_t at = 0;
  const auto source = [&](std::span<std::byte> to) -> Result<size_t> {
    const auto part = to.first(std::min<uint64_t>(to.size(), file.bytes() - at));
    NXDKIT_TRY(file.ReadAt(at, part));
    at += part.size();
    return part.size();
  };
  if (!graph.packed) {
    std::vector<std::byte> buffer(1 << 20);
    while (at < file.bytes()) {
      NXDKIT_ASSIGN(const size_t got, source(buffer));
      NXDKIT_TRY(take(std::span(buffer).first(got)));
    }
    return OkStatus();
  }
  Decompressor stream(source, Compression::kGzip);
  while (true) {
    NXDKIT_ASSIGN(const std::span<const std::byte> part, stream.Next().in(path));
    if (part.empty()) return OkStatus();
    if (stream.bytes_made() > kMaxUnpackedBytes)
      return OverLimit("more than {} bytes when unpacked", kMaxUnpackedBytes).in(path);
    NXDKIT_TRY(take(part));
  }
}

// The last four bytes of a gzip file: its unpacked size, modulo 4 GiB.
Result<uint64_t> UnpackedBytes(const std::string& path) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  std::array<std::byte, 4> tail;
  if (file.bytes() < tail.size()) return Corrupt("{} bytes are not gzip", file.bytes()).in(path);
  NXDKIT_TRY(file.ReadAt(file.bytes() - tail.size(), tail));
  uint64_t bytes = 0;
  for (size_t i = tail.size(); i-- > 0;) bytes = bytes << 8 | static_cast<uint64_t>(tail[i]);
  return bytes;
}

Status FindFile(const std::vector<std::string>& names, Graph& graph) {
  for (const std::string name : {kXlaGraphFile, kOldXlaGraphFile})
    for (const std::string_view suffix : {std::string_view(), kPackedSuffix}) {
      const std::string file = name + std::string(suffix);
      if (!graph.file.empty() || std::ranges::find(names, file) == names.end()) continue;
      graph.file = file;
      graph.packed = !suffix.empty();
    }
  if (graph.file.empty()) return OkStatus();
  const std::string path = JoinPath(graph.path, graph.file);
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  if (info.kind != PathKind::kFile)
    return Unsupported("it is not a file, and links are not followed").in(path);
  graph.bytes = info.bytes;
  return graph.packed ? UnpackedBytes(path).To(graph.bytes) : OkStatus();
}

bool Has(const std::vector<std::string>& options, std::string_view name) {
  return std::ranges::any_of(options, [&](const std::string& word) {
    return word == name || word.starts_with(std::string(name) + "=");
  });
}

// Our caller chooses the paths of the result and the log.
std::vector<std::string> WithoutPaths(std::vector<std::string> options) {
  for (const std::string_view name : {"--output", "-o", "--logfile"})
    options = WithoutOption(options, name);
  return options;
}

// The options that libneuronxla adds to those of the flags file.
void AddOwnOptions(std::vector<std::string>& options) {
  if (!Has(options, "--framework")) options.insert(options.begin(), "--framework=XLA");
  if (!Has(options, "--verbose")) options.emplace_back("--verbose=35");
}

Status CheckName(const CacheEntry& entry, const std::string& flags) {
  if (!entry.well_named) return Corrupt("the name {} is not that of an entry", entry.module);
  const std::string expected = entry.module.substr(entry.module.rfind('+') + 1);
  const std::string found = Md5Hex(flags).substr(0, expected.size());
  if (found == expected) return OkStatus();
  return Corrupt("the hash of the flags is {}, the entry's name says {}", found, expected);
}

struct Flags {
  std::string text;
  std::vector<std::string> words;
  bool old = false;  // the compiler writes no model.done
};

Result<std::optional<Flags>> FlagsIn(const std::string& folder) {
  for (const char* name : {kFlagsFile, kOldFlagsFile}) {
    const std::string path = JoinPath(folder, name);
    NXDKIT_ASSIGN(const bool there, IsFile(path));
    if (!there) continue;
    Flags flags;
    flags.old = name == kOldFlagsFile;
    NXDKIT_TRY(ReadSmallFile(path, kMaxFlagsBytes).To(flags.text));
    const bool blank = flags.text.find_first_not_of(" \t\n") == std::string::npos;
    if (blank) return std::optional<Flags>(std::move(flags));
    if (flags.old) {
      NXDKIT_TRY(SplitCommand(flags.text).To(flags.words).in(path));
      return std::optional<Flags>(std::move(flags));
    }
    NXDKIT_ASSIGN(const Json json, ParseJson(flags.text, kLikePython).in(path));
    const bool words = json.is_array() &&
                       std::ranges::all_of(json, [](const Json& each) { return each.is_string(); });
    if (!words) return Corrupt("{} found, a list of texts expected", JsonExcerpt(json)).in(path);
    for (const Json& each : json) flags.words.push_back(each.get<std::string>());
    return std::optional<Flags>(std::move(flags));
  }
  return std::optional<Flags>();
}

Result<std::optional<Graph>> XlaGraph(const CacheEntry& entry) {
  Graph graph{.name = EntryName(entry),
              .path = entry.path,
              .compiler = entry.compiler,
              .state = entry.state};
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(entry.path));
  NXDKIT_TRY(FindFile(names, graph));
  if (graph.file.empty()) return std::optional<Graph>();
  graph.has_lock = std::ranges::any_of(
      names, [](const std::string& name) { return name.ends_with(kLockSuffix); });
  graph.has_result = entry.state == EntryState::kDone;
  if (graph.has_result) return std::optional<Graph>(std::move(graph));
  NXDKIT_ASSIGN(const std::optional<Flags> flags, FlagsIn(entry.path));
  const bool old = flags && flags->old;
  graph.has_result = old && entry.payload == kNeffFile;
  if (graph.has_result) return std::optional<Graph>(std::move(graph));
  // Without a file, the flags of an empty one.
  NXDKIT_TRY(CheckName(entry, flags ? flags->text : "")
                 .in(JoinPath(entry.path, old ? kOldFlagsFile : kFlagsFile)));
  if (flags) graph.options = WithoutPaths(flags->words);
  AddOwnOptions(graph.options);
  return std::optional<Graph>(std::move(graph));
}

// "neuronx-cc compile GRAPH --framework XLA --target T --output NEFF --logfile LOG ...", with the
// paths of the machine that wrote it.
Result<std::vector<std::string>> OptionsOfCommand(const std::string& path) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxFlagsBytes));
  NXDKIT_ASSIGN(const std::vector<std::string> words, SplitCommand(text).in(path));
  const auto compile = std::ranges::find(words, kCompile);
  if (compile == words.begin() || compile == words.end() || compile + 1 == words.end() ||
      compile[1].starts_with('-'))
    return Corrupt("\"{}\" found, `neuronx-cc compile GRAPH ...` expected", text).in(path);
  return WithoutPaths({compile + 2, words.end()});
}

Status CheckMetadata(const CacheEntry& entry) {
  const std::string path = JoinPath(entry.path, kLiteMetadataFile);
  NXDKIT_ASSIGN(const bool there, IsFile(path));
  if (!there) return Unsupported("missing: only the engine can write it").in(path);
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, kMaxFlagsBytes));
  NXDKIT_ASSIGN(const std::vector<std::string> faults, MetadataFaults(text, entry.module).in(path));
  if (!faults.empty()) return Corrupt("{}", faults.front()).in(path);
  return OkStatus();
}

Result<std::optional<Graph>> LiteGraph(const CacheEntry& entry) {
  Graph graph{.name = EntryName(entry),
              .path = entry.path,
              .file = kLiteGraphFile,
              .state = entry.state,
              .has_result = entry.state == EntryState::kDone};
  const std::string path = JoinPath(entry.path, kLiteGraphFile);
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  if (info.kind != PathKind::kFile) return std::optional<Graph>();
  graph.bytes = info.bytes;
  if (graph.has_result) return std::optional<Graph>(std::move(graph));
  const std::string command = JoinPath(entry.path, kLiteCommandFile);
  NXDKIT_ASSIGN(const bool there, IsFile(command));
  if (!there)
    return Unsupported("missing: nothing else records how the graph is compiled").in(command);
  NXDKIT_TRY(OptionsOfCommand(command).To(graph.options));
  NXDKIT_TRY(CheckMetadata(entry));
  return std::optional<Graph>(std::move(graph));
}

}  // namespace

Result<std::optional<Graph>> GraphOfEntry(const FoundTree& tree, const CacheEntry& entry) {
  if (tree.kind == TreeKind::kXla) return XlaGraph(entry);
  if (tree.kind == TreeKind::kLite) return LiteGraph(entry);
  return std::optional<Graph>();
}

Status WriteGraph(const Graph& graph, const std::string& to) {
  NXDKIT_ASSIGN(File file, File::OpenWrite(to));
  uint64_t at = 0;
  NXDKIT_TRY(ReadGraphBytes(graph, [&](std::span<const std::byte> part) {
    const uint64_t offset = at;
    at += part.size();
    return file.WriteAt(offset, part);
  }));
  return file.Close();
}

Status CheckGraph(const Graph& graph) {
  if (graph.bytes > kMaxGraphBytes) return OkStatus();  // the compiler will report faults
  std::string bytes;
  NXDKIT_TRY(ReadGraphBytes(graph, [&](std::span<const std::byte> part) -> Status {
    if (bytes.size() + part.size() > kMaxGraphBytes)
      return OverLimit("more than {} bytes when unpacked", kMaxGraphBytes)
          .in(JoinPath(graph.path, graph.file));
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
    return OkStatus();
  }));
  const Result<std::vector<BackendConfig>> walked = FindBackendConfigs(bytes);
  // Too many configurations to count are not a fault of the graph.
  if (walked.ok() || walked.error().code() == Errc::kUnsupported) return OkStatus();
  return Error(walked.error()).in(JoinPath(graph.path, graph.file));
}

Result<std::optional<std::vector<std::string>>> ReadFlags(const std::string& folder) {
  NXDKIT_ASSIGN(std::optional<Flags> flags, FlagsIn(folder));
  if (!flags) return std::optional<std::vector<std::string>>();
  return std::optional<std::vector<std::string>>(std::move(flags->words));
}

}  // namespace nxdkit::neff
