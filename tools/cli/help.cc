#include "tools/cli/help.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr size_t kWidth = 80;
constexpr size_t kHelpColumn = 28;

// Wraps the words of `text`, each line indented by `indent`; the first line begins at `column`.
std::string Wrap(std::string_view text, size_t indent, size_t column) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (column > indent && column + 1 + word.size() > kWidth) {
      out += '\n' + std::string(indent, ' ');
      column = indent;
    } else if (column > indent) {
      out += ' ';
      ++column;
    }
    out += word;
    column += word.size();
  }
  return out + '\n';
}

// A line that is too long, such as a list of choices, goes on below after one of its "|".
std::string FoldChoices(std::string_view line) {
  constexpr size_t kIndent = 10;
  std::string out;
  while (line.size() + (out.empty() ? 0 : kIndent) > kWidth) {
    const size_t bar = line.substr(0, kWidth - (out.empty() ? 0 : kIndent)).rfind('|');
    if (bar == std::string_view::npos) break;
    out += (out.empty() ? "" : std::string(kIndent, ' ')) + std::string(line.substr(0, bar + 1)) +
           '\n';
    line.remove_prefix(bar + 1);
  }
  return out + (out.empty() ? "" : std::string(kIndent, ' ')) + std::string(line);
}

std::string LeftColumn(const OptionFacts& row) {
  if (row.positional) return "  " + row.name;
  std::string left = !row.short_name.empty() ? fmt::format("  -{}, ", row.short_name) : "      ";
  left += fmt::format("{}", fmt::join(row.names, ", "));
  if (!row.value.empty()) left += " " + row.value;
  return FoldChoices(left);
}

// "[nxd, rollout]": the formats that an option applies to, where it does not apply to all.
std::string KindTag(const OptionFacts& row) {
  std::vector<std::string> names;
  for (const OfKind& of : row.kinds) names.push_back(of.kind);
  return names.empty() ? "" : fmt::format(" [{}]", fmt::join(names, ", "));
}

std::string RowText(const OptionFacts& row, bool with_kinds) {
  std::string text = LeftColumn(row);
  if (text.size() + 2 > kHelpColumn)
    text += '\n' + std::string(kHelpColumn, ' ');
  else
    text += std::string(kHelpColumn - text.size(), ' ');
  std::string help = row.help;
  if (row.repeats) help += "; repeatable";
  if (!row.default_text.empty()) help += fmt::format(" (default {})", row.default_text);
  if (with_kinds) help += KindTag(row);
  return text + Wrap(help, kHelpColumn, kHelpColumn);
}

// The one line that the options make, or those that the command states itself.
std::string UsageLines(const ToolInfo& info, const std::vector<OptionFacts>& options) {
  if (!info.usages.empty()) return fmt::format("usage: {}\n", fmt::join(info.usages, "\n       "));
  std::string line = fmt::format("usage: {} [options]", info.name);
  for (const OptionFacts& row : options) {
    if (row.positional)
      line += fmt::format(" {}{}{}{}", row.required ? "" : "[", row.name, row.repeats ? " ..." : "",
                          row.required ? "" : "]");
    else if (row.required)
      line += fmt::format(" --{} {}", row.name, row.value);
  }
  return line + "\n";
}

std::string Paragraphs(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    out += '\n' + Wrap(text.substr(0, end), 0, 0);
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}

std::vector<std::string> KindsIn(const std::vector<OptionFacts>& options) {
  std::vector<std::string> kinds;
  for (const OptionFacts& row : options)
    for (const OfKind& of : row.kinds)
      if (std::ranges::find(kinds, of.kind) == kinds.end()) kinds.push_back(of.kind);
  return kinds;
}

// The option as the kind has it; nullptr where it does not apply to the kind.
const OfKind* FindKind(const OptionFacts& row, const std::string& kind) {
  const auto found = std::ranges::find(row.kinds, kind, &OfKind::kind);
  return found == row.kinds.end() ? nullptr : &*found;
}

std::string Rows(const std::vector<OptionFacts>& options, bool with_kinds) {
  std::string out;
  std::string group;
  for (const OptionFacts& row : options) {
    if (row.group != group) {
      group = row.group;
      out += fmt::format("\n{}:\n", group);
    }
    out += RowText(row, with_kinds);
  }
  return out;
}

// The options that apply to one kind, and those of their group that apply to every kind.
std::string KindHelp(const ToolInfo& info, const std::vector<OptionFacts>& options,
                     const std::string& kind) {
  std::vector<OptionFacts> rows;
  const auto first =
      std::ranges::find_if(options, [](const OptionFacts& row) { return !row.kinds.empty(); });
  for (const OptionFacts& row : options) {
    const OfKind* of = FindKind(row, kind);
    if (!of && !(row.kinds.empty() && row.group == first->group)) continue;
    rows.push_back(row);
    if (!of) continue;
    rows.back().value = of->value;
    rows.back().help = of->help;
  }
  return UsageLines(info, options) +
         Wrap(fmt::format("Options for {}, as input or as output.", kind), 0, 0) +
         Rows(rows, false);
}

std::string Examples(const ToolInfo& info, size_t most) {
  if (info.examples.empty()) return "";
  std::string out = "\nExamples:\n";
  for (const Example& example :
       std::span(info.examples).first(std::min(most, info.examples.size())))
    out += fmt::format("  {}\n      {}", example.command, Wrap(example.what, 6, 6));
  return out;
}

// One screen: usage, the options that most calls need, a few examples, and where the rest is.
std::string ShortHelp(const ToolInfo& info, const std::vector<OptionFacts>& options) {
  constexpr size_t kMostExamples = 3;
  std::string text = UsageLines(info, options) + Wrap(info.name + " " + info.summary + ".", 0, 0);
  std::string rows;
  size_t listed = 0;
  for (const OptionFacts& row : options) {
    if (std::ranges::find(info.essentials, row.name) == info.essentials.end()) continue;
    rows += RowText(row, false);
    ++listed;
  }
  NXDKIT_CHECK(listed == info.essentials.size());
  if (!rows.empty()) text += "\nMost used options:\n" + rows;
  text += Examples(info, kMostExamples);
  const std::vector<std::string> kinds = KindsIn(options);
  text += fmt::format("\n{} --help lists all {} options; man {} says more.\n", info.name,
                      options.size(), info.name);
  if (!kinds.empty())
    text += Wrap(fmt::format("{} --help=FORMAT lists those of a format: {}.", info.name,
                             fmt::join(kinds, ", ")),
                 0, 0);
  return text;
}

std::string ExitCodes(const ToolInfo& info) {
  const std::string findings = info.findings.empty() ? "" : fmt::format("1 {}, ", info.findings);
  const std::string lost = info.lost.empty() ? "" : fmt::format("75 {}, ", info.lost);
  return "\nExit codes:\n  " +
         Wrap(fmt::format("0 done and good, {}2 wrong options, 3 input missing or damaged, "
                          "4 not supported, 5 I/O error or no space, 6 a limit such as "
                          "--max-memory cannot be met, 70 internal error, {}130 and 143 stopped by "
                          "SIGINT and SIGTERM",
                          findings, lost),
              2, 2);
}

}  // namespace

Result<std::string> HelpText(const ToolInfo& info, const std::vector<OptionFacts>& options,
                             const std::string& topic) {
  const std::vector<std::string> kinds = KindsIn(options);
  if (std::ranges::find(kinds, topic) != kinds.end()) return KindHelp(info, options, topic);
  if (topic == kShortHelp) return ShortHelp(info, options);
  if (!topic.empty() && topic != "all")
    return BadUsage("option --help: found \"{}\", expected one of {}{}all", EscapeControl(topic),
                    fmt::join(kinds, "|"), kinds.empty() ? "" : "|");
  return UsageLines(info, options) + Wrap(info.name + " " + info.summary + ".", 0, 0) +
         Paragraphs(info.details) + Rows(options, KindsIn(options).size() > 1) +
         Examples(info, info.examples.size()) + ExitCodes(info);
}

Json HelpJson(const std::vector<OptionFacts>& options) {
  Json rows = Json::array();
  for (const OptionFacts& row : options) {
    Json json = {{"group", row.group}, {"name", row.name}, {"help", row.help}};
    if (row.positional)
      json["positional"] = true;
    else
      json["names"] = row.names;
    if (!row.short_name.empty()) json["short"] = row.short_name;
    if (!row.value.empty()) json["value"] = row.value;
    if (!row.choices.empty()) json["choices"] = row.choices;
    if (!row.default_text.empty()) json["default"] = row.default_text;
    if (row.required) json["required"] = true;
    if (row.repeats) json["repeats"] = true;
    for (const OfKind& of : row.kinds) json["kinds"].push_back(of.kind);
    rows.push_back(std::move(json));
  }
  return {{"options", std::move(rows)}};
}

}  // namespace nxdkit::tool
