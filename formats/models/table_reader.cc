#include "formats/models/table_reader.h"

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::models {
namespace {

constexpr size_t kMaxStatements = 10'000;

void AddStatement(std::string_view line, uint32_t number, size_t from, size_t end,
                  std::vector<Statement>& out) {
  Statement statement{number, {}, {}};
  for (size_t at = from; at < end;) {
    const size_t begin = line.find_first_not_of(" \t\r", at);
    if (begin == std::string_view::npos || begin >= end) break;
    const size_t stop = std::min(line.find_first_of(" \t\r", begin), end);
    statement.words.push_back({line.substr(begin, stop - begin), static_cast<uint32_t>(begin) + 1});
    at = stop;
  }
  if (statement.words.empty()) return;
  const Word& last = statement.words.back();
  const size_t begin = statement.words.front().column - 1;
  statement.text = line.substr(begin, last.column - 1 + last.text.size() - begin);
  out.push_back(std::move(statement));
}

bool IsPlain(char c) { return c == '\t' || c == '\r' || (c >= ' ' && c <= '~'); }

}  // namespace

std::string_view Statement::From(size_t word) const {
  return word < words.size() ? text.substr(words[word].column - words[0].column) : "";
}

std::string_view Statement::Between(size_t first, size_t end) const {
  if (first >= end) return "";
  const Word& last = words[end - 1];
  return From(first).substr(0, last.column + last.text.size() - words[first].column);
}

uint32_t Statement::ColumnOf(std::string_view part) const {
  return words[0].column + static_cast<uint32_t>(part.data() - text.data());
}

Result<std::vector<Statement>> ReadStatements(std::string_view text) {
  std::vector<Statement> out;
  uint32_t number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++number;
    for (size_t i = 0; i < line.size(); ++i)
      if (!IsPlain(line[i]))
        return Corrupt("line {}, column {}: a byte {:#04x} is not text", number, i + 1,
                       static_cast<unsigned char>(line[i]));
    line = line.substr(0, line.find('#'));
    for (size_t from = 0; from <= line.size();) {
      const size_t end = std::min(line.find(';', from), line.size());
      AddStatement(line, number, from, end, out);
      from = end + 1;
    }
    if (out.size() > kMaxStatements) return Corrupt("over {} statements", kMaxStatements);
  }
  return out;
}

Error WrongAt(const Statement& statement, uint32_t column, std::string_view what) {
  return Corrupt("line {}, column {}: {}", statement.line, column, what);
}

}  // namespace nxdkit::models
