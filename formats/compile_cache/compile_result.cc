#include "formats/compile_cache/compile_result.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cmath>
#include <utility>

#include "formats/compile_cache/copy_entry.h"
#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/publish.h"
#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "lib/system/copy_file.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"

namespace nxdkit::neff {
namespace {

constexpr char kNoteSchema[] = "nxdkit-compile";
constexpr uint64_t kMaxNoteBytes = 1 << 16;
constexpr char kLiteLogFile[] = "log-neuron-cc.txt";

// A file built under a temporary name, removed unless renamed.
class Aside {
 public:
  static Result<Aside> In(const FoundTree& tree, const Graph& graph) {
    NXDKIT_ASSIGN(std::string path, AsideOf(tree, graph.name));
    return Aside(std::move(path));
  }
  Aside(Aside&& other) noexcept : path_(std::exchange(other.path_, "")) {}
  Aside& operator=(Aside&& other) = delete;
  ~Aside() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }
  Status PublishAs(const std::string& target) {
    NXDKIT_TRY(PublishOver(path_, target));
    path_.clear();
    return OkStatus();
  }

 private:
  explicit Aside(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Status SyncFile(const std::string& path) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  return file.Sync();
}

Status PublishText(const FoundTree& tree, const Graph& graph, const char* name,
                   std::string_view text) {
  NXDKIT_ASSIGN(Aside aside, Aside::In(tree, graph));
  NXDKIT_TRY(WriteAside(aside.path(), text));
  NXDKIT_TRY(SyncFile(aside.path()));
  return aside.PublishAs(JoinPath(graph.path, name));
}

Status RemoveFile(const std::string& path) {
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) return OutputError("remove", errno).in(path);
  return OkStatus();
}

std::string NoteText(const CompileNote& note) {
  return DumpPython(Json{{"compiler", note.compiler},
                         {"schema", kNoteSchema},
                         {"seconds", note.seconds},
                         {"version", 1}}) +
         "\n";
}

std::string MarkerText(uint64_t neff_bytes) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return fmt::format("completed:{:.6f}\nneff_size:{}\n", std::chrono::duration<double>(now).count(),
                     neff_bytes);
}

// A lock that cannot be opened (another user's, a link) counts as held, and would be waited for.
Status CheckLocksOpen(const std::string& folder) {
  NXDKIT_ASSIGN(const std::vector<std::string> names, ListFolder(folder));
  for (const std::string& name : names) {
    if (!name.ends_with(kLockSuffix)) continue;
    const std::string path = JoinPath(folder, name);
    const Descriptor lock(::open(path.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
    if (!lock.is_open() && errno != ENOENT) return OutputError("open the lock", errno).in(path);
  }
  return OkStatus();
}

}  // namespace

void RemoveIdleLocks(const std::string& folder) {
  const Result<std::vector<std::string>> names = ListIfThere(folder);
  if (!names.ok()) return;
  for (const std::string& name : *names)
    if (name.ends_with(kLockSuffix)) (void)RemoveIdleLock(JoinPath(folder, name)).ok();
}

CompileHold::~CompileHold() {
  const bool holds = !holds_.empty();
  holds_.clear();
  if (holds && !idle_in_.empty()) RemoveIdleLocks(idle_in_);
}

Result<std::optional<CompileHold>> CompileHold::Try(const FoundTree& tree, const Graph& graph,
                                                    const TreeMoment& moment) {
  const bool xla = tree.kind == TreeKind::kXla;
  if (xla) NXDKIT_TRY(CheckLocksOpen(graph.path));
  CompileHold hold(xla ? graph.path : "");
  NXDKIT_ASSIGN(std::optional<EntryHold> entry, HoldEntry(tree, graph.name, {moment, "", false}));
  if (!entry || !entry->holds()) return std::optional<CompileHold>();
  hold.holds_.push_back(*std::move(entry));
  if (!xla) return std::optional<CompileHold>(std::move(hold));
  // The lock of libneuronxla, named after the graph.
  const std::string lock =
      graph.path + "/" +
      (graph.file.starts_with(kXlaGraphFile) ? kXlaGraphFile : kOldXlaGraphFile) +
      std::string(kLockSuffix);
  NXDKIT_ASSIGN(std::optional<EntryHold> file, HoldLockFile(lock));
  if (!file) return std::optional<CompileHold>();
  hold.holds_.push_back(*std::move(file));
  return std::optional<CompileHold>(std::move(hold));
}

Status PublishResult(const FoundTree& tree, const Graph& graph, const std::string& neff,
                     std::string_view log, const CompileNote& note) {
  NXDKIT_ASSIGN(Aside aside, Aside::In(tree, graph));
  NXDKIT_TRY(CopyFile(neff, aside.path(), true));
  NXDKIT_ASSIGN(const PathInfo copy, LookAtLink(aside.path()));
  const bool lite = tree.kind == TreeKind::kLite;
  // Before the result is published: a reader that finds the log of a failure would not look for
  // one.
  for (const char* old : {kFailureFile, kCompileLogFile})
    if (!lite) NXDKIT_TRY(RemoveFile(JoinPath(graph.path, old)));
  NXDKIT_TRY(aside.PublishAs(JoinPath(graph.path, lite ? LiteNeffName(graph.name) : kNeffFile)));
  if (lite) NXDKIT_TRY(PublishText(tree, graph, kLiteLogFile, log));
  NXDKIT_TRY(PublishText(tree, graph, kCompileNoteFile, NoteText(note)));
  NXDKIT_TRY(SyncFolder(graph.path));
  NXDKIT_TRY(lite ? PublishText(tree, graph, kLiteMarkerFile, MarkerText(copy.bytes))
                  : PublishText(tree, graph, kDoneFile, ""));
  return SyncFolder(graph.path);
}

Result<std::string> KeepFailure(const FoundTree& tree, const Graph& graph, std::string_view log,
                                bool remembered) {
  const char* name = tree.kind == TreeKind::kLite ? kLiteLogFile
                     : remembered                 ? kFailureFile
                                                  : kCompileLogFile;
  const bool forgets = tree.kind == TreeKind::kXla && !remembered;
  if (forgets) NXDKIT_TRY(RemoveFile(JoinPath(graph.path, kFailureFile)));
  NXDKIT_TRY(PublishText(tree, graph, name, log));
  NXDKIT_TRY(SyncFolder(graph.path));
  return JoinPath(graph.path, name);
}

std::optional<double> NotedSeconds(const std::string& folder) {
  const Result<std::string> text = ReadSmallFile(JoinPath(folder, kCompileNoteFile), kMaxNoteBytes);
  if (!text.ok()) return std::nullopt;
  const Result<Json> json = ParseJson(*text, kLikePython);
  if (!json.ok() || !json->is_object()) return std::nullopt;
  const Result<double> seconds = JsonDouble(*json, "seconds");
  if (!seconds.ok() || !std::isfinite(*seconds) || *seconds < 0) return std::nullopt;
  return *seconds;
}

}  // namespace nxdkit::neff
