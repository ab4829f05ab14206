#include "trainer/data/row_reader.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>

#include "lib/base/errors.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"
#include "lib/system/lines.h"

namespace nxdkit::trainer {
namespace {

constexpr uint64_t kMaxArrayBytes = uint64_t{4} << 30;
constexpr size_t kBlockBytes = size_t{1} << 20;
constexpr std::string_view kSpace = " \t\r\n";
constexpr std::string_view kBom = "\xEF\xBB\xBF";  // some editors write it first

std::string_view WithoutBom(std::string_view text) {
  return text.starts_with(kBom) ? text.substr(kBom.size()) : text;
}

// A brace alone: the object continues on the following lines.
Status CheckOneLine(std::string_view text, uint64_t line) {
  const size_t first = text.find_first_not_of(kSpace);
  if (text[first] != '{' || text.find_first_not_of(kSpace, first + 1) != std::string_view::npos)
    return OkStatus();
  return Corrupt("line {}: an object over several lines", line)
      .hint("write each row in one line, or an array of them: jq -c . FILE > ROWS.jsonl");
}

Status OneRow(std::string_view text, uint64_t line, const EachRow& each) {
  return ReadRow(text, "line", line, each);
}

// The elements of an array are located by brackets and quotes, then parsed one by one; their parser
// finds what is not JSON in them.
class Array {
 public:
  Array(std::string_view text, const EachRow& each) : text_(text), each_(each) {}

  Status Run() {
    Skip();
    ++at_;  // '[', seen by the caller
    Skip();
    if (Peek() == ']') return AfterEnd();
    for (;;) {
      const uint64_t line = line_;
      const size_t begin = at_;
      FindEnd();
      if (at_ - begin > kMaxRowBytes)
        return OverLimit("line {}: a row is over the limit of {} bytes", line, kMaxRowBytes);
      NXDKIT_TRY(OneRow(text_.substr(begin, at_ - begin), line, each_));
      if (Peek() == ']') return AfterEnd();
      if (Peek() != ',') return Fail("the array does not end");
      ++at_;
      Skip();
    }
  }

 private:
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  Error Fail(std::string_view what) const { return Corrupt("line {}: {}", line_, what).at(at_); }
  void Step() {
    if (text_[at_++] == '\n') ++line_;
  }
  void Skip() {
    while (at_ < text_.size() && kSpace.find(text_[at_]) != std::string_view::npos) Step();
  }
  Status AfterEnd() {
    ++at_;
    Skip();
    return at_ == text_.size() ? OkStatus() : Status(Fail("there is text after the array"));
  }

  // Advances to the ',' or ']' after the element, or to the end of the text.
  void FindEnd() {
    int64_t depth = 0;
    for (; at_ < text_.size(); Step()) {
      const char c = text_[at_];
      if (c == '"') SkipString();
      if (at_ >= text_.size()) return;
      if (depth == 0 && (c == ',' || c == ']')) return;
      if (c == '[' || c == '{') ++depth;
      if (c == ']' || c == '}') --depth;
    }
  }
  // Advances to the closing quote.
  void SkipString() {
    for (Step(); at_ < text_.size() && text_[at_] != '"'; Step())
      if (text_[at_] == '\\' && at_ + 1 < text_.size()) Step();
  }

  std::string_view text_;
  const EachRow& each_;
  size_t at_ = 0;
  uint64_t line_ = 1;
};

// The first character that is not white space; 0 if there is none.
Result<char> FirstCharacter(const File& file) {
  std::string block;
  for (uint64_t offset = 0; offset < file.bytes(); offset += block.size()) {
    block.resize(std::min<uint64_t>(kBlockBytes, file.bytes() - offset));
    NXDKIT_TRY(file.ReadAt(offset, std::as_writable_bytes(std::span(block))));
    const std::string_view text = offset == 0 ? WithoutBom(block) : block;
    const size_t found = text.find_first_not_of(kSpace);
    if (found != std::string_view::npos) return text[found];
  }
  return '\0';
}

Status ReadFile(const File& file, const EachRow& each) {
  NXDKIT_ASSIGN(const char first, FirstCharacter(file));
  if (first == '[') {
    if (file.bytes() > kMaxArrayBytes)
      return OverLimit("a JSON array of {} bytes is over the limit of {}", file.bytes(),
                       kMaxArrayBytes)
          .hint("use JSON Lines, which are read line by line");
    std::string text(file.bytes(), '\0');
    NXDKIT_TRY(file.ReadAt(0, std::as_writable_bytes(std::span(text))));
    return Array(WithoutBom(text), each).Run();
  }
  return ForEachLine(
      file, kMaxRowBytes, [&](std::string_view line, uint64_t number, bool) -> Status {
        if (number == 1) line = WithoutBom(line);
        const bool is_empty = line.find_first_not_of(kSpace) == std::string_view::npos;
        if (is_empty) return OkStatus();
        NXDKIT_TRY(CheckOneLine(line, number));
        return OneRow(line, number, each);
      });
}

}  // namespace

Status ReadRow(std::string_view text, std::string_view what, uint64_t number, const EachRow& each) {
  const auto at = [&](const Error& error) {
    return Error(error.code(), fmt::format("{} {}: {}", what, number, error.message()))
        .member(error.member())
        .hint(error.hint());
  };
  // NaN in an unused column is not an error.
  const Result<Json> row = ParseJson(text, {.allow_nan = true});
  if (!row.ok()) return at(row.error());
  if (!row->is_object())
    return Corrupt("{} {}: found {}, expected an object", what, number, JsonTypeText(*row));
  const Status status = each(*row, number);
  return status.ok() ? OkStatus() : Status(at(status.error()));
}

Status ReadRows(const std::string& path, const EachRow& each) {
  NXDKIT_ASSIGN(const File file, File::OpenRead(path));
  const Status read = ReadFile(file, each).in(path);
  return read.ok() ? OkStatus() : Status(OrWrongAnswer(read.error(), path));
}

}  // namespace nxdkit::trainer
