#include "tools/cli/report.h"

#include <fmt/core.h>

#include <utility>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr const char* kRed = "\033[31m";
constexpr const char* kYellow = "\033[33m";
constexpr const char* kReset = "\033[0m";

std::string Painted(std::string_view word, const char* color_code, bool color) {
  return color ? fmt::format("{}{}{}", color_code, word, kReset) : std::string(word);
}

const char* StatusWord(int exit_code) {
  if (exit_code == 0) return "ok";
  return exit_code == ExitCode(Errc::kFindings) ? "findings" : "error";
}

// The line feeds of "2 problems in x:
// [1] a
// [2] b", which are \x0a in `escaped`. All others stay escaped: a name with a line feed must not
// look like a message of ours.
std::string EntryLines(std::string escaped) {
  size_t at = 0;
  for (int i = 1; at != std::string::npos; ++i) {
    const std::string mark = fmt::format("\\x0a[{}] ", i);
    at = escaped.find(mark, at);
    if (at != std::string::npos) escaped.replace(at, mark.size(), fmt::format("\n  [{}] ", i));
  }
  return escaped;
}

Json ErrorJson(const Error& error) {
  Json json = {{"code", ErrcName(error.code())}, {"message", error.message()}};
  if (!error.file().empty()) json["file"] = error.file();
  if (!error.member().empty()) json["member"] = error.member();
  if (!error.tensor().empty()) json["tensor"] = error.tensor();
  if (error.rank()) json["rank"] = *error.rank();
  if (error.offset()) json["offset"] = *error.offset();
  if (!error.hint().empty()) json["hint"] = error.hint();
  return json;
}

}  // namespace

std::string ErrorLines(std::string_view tool, const Error& error, bool color) {
  std::string lines = fmt::format("{}: {} {}\n", tool, Painted("error:", kRed, color),
                                  EntryLines(EscapeControl(error.ToString())));
  if (!error.hint().empty()) lines += fmt::format("hint: {}\n", EscapeControl(error.hint()));
  return lines;
}

std::string WarningLine(std::string_view tool, std::string_view message, bool color) {
  return fmt::format("{}: {} {}\n", tool, Painted("warning:", kYellow, color),
                     EscapeControl(message));
}

std::string JsonDocument(std::string_view tool, int exit_code, const Error* error, const Said& said,
                         Json fields) {
  Json document = {{"schema_version", 1},           {"tool", tool},
                   {"tool_version", ToolVersion()}, {"status", StatusWord(exit_code)},
                   {"exit_code", exit_code},        {"warnings", said.warnings}};
  for (const Choice& choice : said.choices)
    document["chosen"].push_back({{"path", choice.path}, {"of", choice.of}, {"by", choice.by}});
  if (error != nullptr) document["error"] = ErrorJson(*error);
  for (auto& [key, value] : fields.items()) document[key] = std::move(value);
  return document.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

const char* ToolVersion() { return NXDKIT_VERSION; }

}  // namespace nxdkit::tool
