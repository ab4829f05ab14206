#include "lib/base/error.h"

#include <fmt/core.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "lib/base/text.h"

namespace nxdkit {
namespace {

struct CodeRow {
  Errc code;
  int exit_code;
  const char* name;
};

constexpr CodeRow kCodes[] = {
    {Errc::kFindings, 1, "findings"},
    {Errc::kUsage, 2, "usage"},
    {Errc::kNotFound, 3, "not_found"},
    {Errc::kCorrupt, 3, "corrupt"},
    {Errc::kUnsupported, 4, "unsupported"},
    {Errc::kIo, 5, "io"},
    {Errc::kLimit, 6, "limit"},
    {Errc::kInterrupted, 130, "interrupted"},
    {Errc::kLost, 75, "lost"},
    {Errc::kInternal, 70, "internal"},
};

const CodeRow& Row(Errc code) {
  for (const CodeRow& row : kCodes)
    if (row.code == code) return row;
  return kCodes[std::size(kCodes) - 1];
}

std::string SystemText(std::string_view action, int saved_errno) {
  return fmt::format("cannot {}: {}", action, std::strerror(saved_errno));
}

// People copy paths from messages: they are kept whole up to the longest that Linux accepts.
std::string ShortPath(std::string_view path) {
  constexpr size_t kLongest = 4096;
  return path.size() <= kLongest ? std::string(path) : ShortName(path);
}

}  // namespace

int ExitCode(Errc code) { return Row(code).exit_code; }
std::string_view ErrcName(Errc code) { return Row(code).name; }

struct Error::Facts {
  Errc code;
  std::string message;
  std::string file;
  std::string member;
  std::string tensor;
  std::optional<uint64_t> offset;
  std::optional<int64_t> rank;
  std::string hint;
};

Error::Error(Errc code, std::string message)
    : facts_(std::make_unique<Facts>(
          Facts{code, ShortText(std::move(message)), {}, {}, {}, {}, {}, {}})) {}
Error::Error(const Error& other) : facts_(std::make_unique<Facts>(*other.facts_)) {}
Error::Error(Error&& other) noexcept = default;
Error& Error::operator=(const Error& other) {
  facts_ = std::make_unique<Facts>(*other.facts_);
  return *this;
}
Error& Error::operator=(Error&& other) noexcept = default;
Error::~Error() = default;

Errc Error::code() const { return facts_->code; }
const std::string& Error::message() const { return facts_->message; }
const std::string& Error::file() const { return facts_->file; }
const std::string& Error::member() const { return facts_->member; }
const std::string& Error::tensor() const { return facts_->tensor; }
const std::optional<uint64_t>& Error::offset() const { return facts_->offset; }
const std::optional<int64_t>& Error::rank() const { return facts_->rank; }
const std::string& Error::hint() const { return facts_->hint; }

Error Error::in(std::string_view file) && {
  if (facts_->file.empty()) facts_->file = ShortPath(file);
  return std::move(*this);
}
Error Error::member(std::string_view member) && {
  if (facts_->member.empty()) facts_->member = ShortName(member);
  return std::move(*this);
}
Error Error::on(std::string_view tensor) && {
  if (facts_->tensor.empty()) facts_->tensor = ShortName(tensor);
  return std::move(*this);
}
Error Error::at(uint64_t offset) && {
  if (!facts_->offset) facts_->offset = offset;
  return std::move(*this);
}
Error Error::rank(int64_t rank) && {
  if (!facts_->rank) facts_->rank = rank;
  return std::move(*this);
}
Error Error::hint(std::string_view hint) && {
  if (facts_->hint.empty()) facts_->hint = ShortText(std::string(hint));
  return std::move(*this);
}

std::string Error::ToString() const {
  std::string text;
  if (!file().empty()) text += file() + ": ";
  if (!member().empty()) text += member() + ": ";
  if (!tensor().empty()) text += tensor() + ": ";
  if (rank()) text += fmt::format("rank {}: ", *rank());
  if (offset()) text += fmt::format("offset {}: ", *offset());
  return text + message();
}

Error SystemError(std::string_view action, int saved_errno) {
  if (saved_errno == ENOENT || saved_errno == ENOTDIR)
    return Error(Errc::kNotFound, SystemText(action, saved_errno));
  // The system is fine: the paths that it was given cannot be resolved.
  if (saved_errno == ELOOP || saved_errno == ENAMETOOLONG)
    return Error(Errc::kCorrupt, SystemText(action, saved_errno));
  return OutputError(action, saved_errno);
}

Error OutputError(std::string_view action, int saved_errno) {
  Error error(Errc::kIo, SystemText(action, saved_errno));
  if (saved_errno == ENOSPC || saved_errno == EDQUOT)
    return std::move(error).hint("free some space; nothing was published under the output's name");
  return error;
}

void CheckFailed(const char* file, int line, const char* what) {
  std::fprintf(stderr, "internal error: %s:%d: %s\n", file, line, what);
  std::abort();
}

}  // namespace nxdkit
