#include "lib/system/broken_download.h"

#include <algorithm>
#include <string_view>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/file.h"
#include "lib/system/look.h"

namespace nxdkit {
namespace {

constexpr size_t kStart = 4096;
constexpr std::string_view kPointer = "version https://git-lfs.github.com/spec/";
constexpr const char* kAgain = "get the file again: the download did not deliver it";

// "size 4976698672" of a pointer; nullopt without one.
std::optional<uint64_t> SizeInPointer(std::string_view text) {
  constexpr std::string_view kSize = "\nsize ";
  const size_t at = text.find(kSize);
  if (at == std::string_view::npos) return std::nullopt;
  text.remove_prefix(at + kSize.size());
  return ParseNumber<uint64_t>(text.substr(0, text.find_first_of("\r\n")));
}

std::optional<Error> Pointer(std::string_view text) {
  const std::optional<uint64_t> bytes = SizeInPointer(text);
  return Corrupt("a git-lfs pointer of {} bytes lies in the place of the file{}", text.size(),
                 bytes ? ", which has " + HumanBytes(*bytes) : "")
      .hint("git lfs pull, in the clone, fetches what pointers stand for");
}

// The start in lower case, from the first character that is not a space; a byte order mark counts
// as one.
std::string Lowered(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  text.remove_prefix(std::min(text.find_first_not_of(" \t\r\n"), text.size()));
  std::string lower(text.substr(0, 256));
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c; });
  return lower;
}

// "<Code>AccessDenied</Code>" in an object store's answer; "" without one.
std::string CodeOfStore(std::string_view text) {
  const size_t begin = text.find("<Code>");
  const size_t end = text.find("</Code>");
  if (begin == std::string_view::npos || end == std::string_view::npos || end < begin) return "";
  return EscapeControl(text.substr(begin + 6, end - begin - 6));
}

std::optional<Error> Markup(std::string_view start) {
  const std::string lower = Lowered(start);
  if (lower.starts_with("<!doctype html") || lower.starts_with("<html"))
    return Corrupt("a web page lies in the place of the file, as a proxy or a sign-in sends it")
        .hint(kAgain);
  if (!lower.starts_with("<?xml") && !lower.starts_with("<error>")) return std::nullopt;
  const std::string code = CodeOfStore(start);
  if (code.empty()) return std::nullopt;
  return Corrupt("an object store's answer lies in the place of the file: {}", code).hint(kAgain);
}

bool IsZero(std::string_view bytes) { return bytes.find_first_not_of('\0') == bytes.npos; }

// The first bytes of a regular file; nullopt if there is none, or it cannot be read.
std::optional<std::string> StartOf(const std::string& path) {
  if (KindForHint(path) != PathKind::kFile) return std::nullopt;
  Result<std::string> start = ReadStart(path, kStart);
  return start.ok() ? std::optional(*std::move(start)) : std::nullopt;
}

std::optional<Error> AnswerIn(std::string_view start) {
  return start.starts_with(kPointer) ? Pointer(start) : Markup(start);
}

std::optional<Error> NothingIn(std::string_view start) {
  if (start.empty()) return Corrupt("the file is empty").hint(kAgain);
  if (start.size() < 8 || !IsZero(start)) return std::nullopt;
  return Corrupt("the file begins with {} zero bytes: its space was reserved and not filled",
                 start.size())
      .hint(kAgain);
}

Error Told(Error error, const std::string& path,
           std::optional<Error> (*word)(const std::string& path)) {
  const bool of_contents = error.code() == Errc::kCorrupt || error.code() == Errc::kUnsupported;
  std::optional<Error> broken = of_contents ? word(path) : std::nullopt;
  return broken ? *std::move(broken) : std::move(error);
}

}  // namespace

std::optional<Error> WrongAnswer(const std::string& path) {
  const std::optional<std::string> start = StartOf(path);
  std::optional<Error> error = start ? AnswerIn(*start) : std::nullopt;
  if (error) error = std::move(*error).in(path);
  return error;
}

std::optional<Error> BrokenDownload(const std::string& path) {
  const std::optional<std::string> start = StartOf(path);
  if (!start) return std::nullopt;
  std::optional<Error> error = AnswerIn(*start);
  if (!error) error = NothingIn(*start);
  if (error) error = std::move(*error).in(path);
  return error;
}

Error OrWrongAnswer(Error error, const std::string& path) {
  return Told(std::move(error), path, WrongAnswer);
}

Error OrBrokenDownload(Error error, const std::string& path) {
  return Told(std::move(error), path, BrokenDownload);
}

}  // namespace nxdkit
