#include "lib/error.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

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

}  // namespace

int ExitCode(Errc code) { return Row(code).exit_code; }
std::string_view ErrcName(Errc code) { return Row(code).name; }

Error::Error(Errc code, std::string message) : code_(code), message_(std::move(message)) {}

Error Error::in(std::string_view file) && {
  if (file_.empty()) file_ = file;
  return std::move(*this);
}
Error Error::member(std::string_view member) && {
  if (member_.empty()) member_ = member;
  return std::move(*this);
}
Error Error::on(std::string_view tensor) && {
  if (tensor_.empty()) tensor_ = tensor;
  return std::move(*this);
}
Error Error::at(uint64_t offset) && {
  if (!offset_) offset_ = offset;
  return std::move(*this);
}
Error Error::rank(int64_t rank) && {
  if (!rank_) rank_ = rank;
  return std::move(*this);
}
Error Error::hint(std::string_view hint) && {
  if (hint_.empty()) hint_ = hint;
  return std::move(*this);
}

std::string Error::ToString() const {
  std::string text;
  if (!file_.empty()) text += file_ + ": ";
  if (!member_.empty()) text += member_ + ": ";
  if (!tensor_.empty()) text += tensor_ + ": ";
  if (rank_) text += fmt::format("rank {}: ", *rank_);
  if (offset_) text += fmt::format("offset {}: ", *offset_);
  return text + message_;
}

Error SystemError(std::string_view action, int saved_errno) {
  if (saved_errno == ENOENT || saved_errno == ENOTDIR)
    return Error(Errc::kNotFound, SystemText(action, saved_errno));
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
