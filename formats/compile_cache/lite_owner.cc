#include "formats/compile_cache/lite_owner.h"

#include <fmt/core.h>
#include <unistd.h>

#include <chrono>

#include "formats/compile_cache/entry_lock.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/look.h"
#include "lib/system/paths.h"
#include "lib/system/process_facts.h"

namespace nxdkit::neff {
namespace {

constexpr std::string_view kOwnerSuffix = ".compilation_metadata";
constexpr uint64_t kMaxOwnerBytes = 1 << 20;
constexpr size_t kKeptNameBytes = 15;  // of a process's name, as kept by the kernel

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

// Takes one string as Python's repr writes it off the start of `text`; nullopt for escapes other
// than those of quotes, backslash and line ends.
std::optional<std::string> TakePythonString(std::string_view& text) {
  if (text.empty() || (text[0] != '\'' && text[0] != '"')) return std::nullopt;
  const char quote = text[0];
  std::string value;
  for (size_t i = 1; i < text.size(); ++i) {
    if (text[i] == quote) {
      text.remove_prefix(i + 1);
      return value;
    }
    if (text[i] != '\\') {
      value += text[i];
      continue;
    }
    constexpr std::string_view kEscapes = "\\'\"nrt";
    constexpr std::string_view kMeanings = "\\'\"\n\r\t";
    const size_t escape = ++i < text.size() ? kEscapes.find(text[i]) : std::string_view::npos;
    if (escape == std::string_view::npos) return std::nullopt;
    value += kMeanings[escape];
  }
  return std::nullopt;
}

std::optional<std::vector<std::string>> ParsePythonList(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  text = text.substr(1, text.size() - 2);
  std::vector<std::string> words;
  while (!text.empty()) {
    std::optional<std::string> word = TakePythonString(text);
    if (!word) return std::nullopt;
    words.push_back(*std::move(word));
    if (text.starts_with(", ")) text.remove_prefix(2);
  }
  return words;
}

// The text as Python's repr writes it, in ASCII quotes.
std::string PythonString(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\'' || c == '\\')
      quoted += {'\\', c};
    else if (c == '\n')
      quoted += "\\n";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      quoted += fmt::format("\\x{:02x}", static_cast<unsigned>(c));
    else
      quoted += c;
  }
  return quoted + "'";
}

bool IsThatProcess(const LiteOwner& owner, const ProcessFacts& facts) {
  const bool same_name = owner.process_name.substr(0, kKeptNameBytes) == facts.name;
  return same_name && (!owner.words || *owner.words == facts.words);
}

}  // namespace

std::string OwnerFileName(std::string_view key) { return fmt::format(".{}{}", key, kOwnerSuffix); }
std::string OwnerLockName(std::string_view key) {
  return OwnerFileName(key) + std::string(kLockSuffix);
}

std::optional<std::string> KeyOfOwnerFile(std::string_view name) {
  if (!name.starts_with('.') || !name.ends_with(kOwnerSuffix)) return std::nullopt;
  const std::string_view key = name.substr(1, name.size() - 1 - kOwnerSuffix.size());
  return IsLiteKey(key) ? std::optional<std::string>(key) : std::nullopt;
}

std::optional<std::string> KeyOfOwnerLock(std::string_view name) {
  if (!name.ends_with(kLockSuffix)) return std::nullopt;
  return KeyOfOwnerFile(name.substr(0, name.size() - kLockSuffix.size()));
}

Result<LiteOwner> ParseOwnerFile(std::string_view text) {
  LiteOwner owner;
  for (const std::string_view line : Split(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    const std::string_view name = line.substr(0, colon);
    const std::string_view value = Trimmed(line.substr(colon + 1));
    if (name == "process_name") owner.process_name = value;
    if (name == "cmdline") owner.words = ParsePythonList(value);
    if (name != "pid") continue;
    const std::optional<int64_t> pid = ParseNumber<int64_t>(value);
    if (!pid || *pid <= 0) return Corrupt("pid \"{}\" found, a number expected", value);
    owner.pid = *pid;
  }
  if (owner.pid == 0) return Corrupt("there is no line \"pid:\"");
  return owner;
}

std::string OwnerTextOfThisProcess() {
  using std::chrono::system_clock;
  const std::optional<ProcessFacts> facts = FactsOfProcess(::getpid());
  std::string words;
  if (facts)
    for (const std::string& word : facts->words)
      words += (words.empty() ? "" : ", ") + PythonString(word);
  const std::chrono::duration<double> now = system_clock::now().time_since_epoch();
  return fmt::format("pid: {}\nprocess_name: {}\ncmdline: [{}]\nrank: 0\ntimestamp: {}\n",
                     ::getpid(), facts ? facts->name : "", words, now.count());
}

Result<OwnerState> AskOwner(const std::string& root, std::string_view key,
                            const TreeMoment& moment) {
  const std::string lock = JoinPath(root, OwnerLockName(key));
  NXDKIT_ASSIGN(const bool has_lock, IsThere(lock));
  if (has_lock && IsHeld(lock)) return OwnerState::kAlive;
  const std::string path = JoinPath(root, OwnerFileName(key));
  NXDKIT_ASSIGN(const PathInfo info, LookAtLink(path));
  if (info.kind == PathKind::kMissing) return OwnerState::kNone;
  if (moment.shared) {
    const bool old = (moment.now_ns - info.written_ns) / kSecondNs >= kPatienceSeconds;
    return old ? OwnerState::kDead : OwnerState::kAlive;
  }
  if (info.kind != PathKind::kFile) return OwnerState::kDead;
  const Result<std::string> text = ReadSmallFile(path, kMaxOwnerBytes);
  if (!text.ok() && text.error().code() == Errc::kNotFound) return OwnerState::kNone;
  if (!text.ok() && text.error().code() != Errc::kCorrupt) return text.error();
  const Result<LiteOwner> owner = text.ok() ? ParseOwnerFile(*text) : text.error();
  // It may just be being written: a file that cannot be read is dead only when it is old.
  if (!owner.ok())
    return (moment.now_ns - info.written_ns) / kSecondNs >= kQuietSeconds ? OwnerState::kDead
                                                                          : OwnerState::kAlive;
  const std::optional<ProcessFacts> facts = FactsOfProcess(owner->pid);
  return facts && IsThatProcess(*owner, *facts) ? OwnerState::kAlive : OwnerState::kDead;
}

}  // namespace nxdkit::neff
