#include "tools/cli/parse_arguments.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <utility>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

constexpr int kMaxPositionals = 10'000;

Error UsageError(std::string message) { return Error(Errc::kUsage, std::move(message)); }

const OptionRow* FindLong(const OptionTable& table, const std::string& dashed) {
  for (const OptionRow& row : table.rows()) {
    const std::vector<std::string> names = LongNames(row);
    if (std::ranges::find(names, dashed) != names.end()) return &row;
  }
  return nullptr;
}

const OptionRow* FindShort(const OptionTable& table, char letter) {
  for (const OptionRow& row : table.rows())
    if (row.short_name != 0 && row.short_name == letter) return &row;
  return nullptr;
}

// "--max_memory=4_G" -> {"--max-memory", "=4_G"}; the value keeps its underscores.
std::pair<std::string, std::string> SplitLong(const std::string& argument) {
  const size_t equals = argument.find('=');
  std::string name = argument.substr(0, equals);
  std::ranges::replace(name, '_', '-');
  return {name, equals == std::string::npos ? "" : argument.substr(equals)};
}

bool IsKnownOption(const OptionTable& table, const std::string& argument) {
  if (argument.starts_with("--")) return FindLong(table, SplitLong(argument).first) != nullptr;
  return argument.size() == 2 && argument[0] == '-' && FindShort(table, argument[1]) != nullptr;
}

size_t SharedPrefix(std::string_view a, std::string_view b) {
  return static_cast<size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
}

Error UnknownOption(const OptionTable& table, const std::string& found) {
  std::vector<std::string> known;
  for (const OptionRow& row : table.rows())
    for (std::string& name : LongNames(row)) known.push_back(std::move(name));
  // "-tp" is compared as "--tp".
  const std::string dashed = found.starts_with("--") ? found : "-" + found;
  // Of equally near names the one that begins alike: --tpp is --tp before it is --top.
  std::ranges::stable_sort(known, [&](const std::string& a, const std::string& b) {
    return SharedPrefix(a, dashed) > SharedPrefix(b, dashed);
  });
  const std::optional<std::string> close = ClosestWord(dashed, known);
  if (close) return UsageError(fmt::format("unknown option {}; did you mean {}?", found, *close));
  return UsageError(fmt::format("unknown option {}", found)).hint("--help lists the options");
}

Error MissingValue(const OptionRow& row) {
  return UsageError(fmt::format("option {} needs a value: {}", DisplayName(row), row.value));
}

Status CheckLong(const OptionTable& table, const OptionRow& row, const std::string& name,
                 const std::string& equals_value, const std::string* next) {
  if (!TakesValue(row)) {
    if (equals_value.empty()) return OkStatus();
    const std::string off = row.kind == OptionKind::kToggle
                                ? fmt::format("; give --{0} or --no-{0}", row.name)
                                : fmt::format("; give {} or leave it out", name);
    return UsageError(
        fmt::format("option {} takes no value, found \"{}\"{}", name, equals_value.substr(1), off));
  }
  if (equals_value == "=") return MissingValue(row);
  if (!equals_value.empty()) return OkStatus();
  if (next == nullptr || IsKnownOption(table, *next)) return MissingValue(row);
  return OkStatus();
}

// The house rules for long options. Returns the arguments with every long name spelled with `-`.
Result<std::vector<std::string>> ApplyHouseRules(const OptionTable& table,
                                                 const std::vector<std::string>& arguments) {
  std::vector<std::string> normal;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      normal.insert(normal.end(), arguments.begin() + static_cast<ptrdiff_t>(i), arguments.end());
      break;
    }
    if (!argument.starts_with("--")) {
      normal.push_back(argument);
      continue;
    }
    const auto [name, equals_value] = SplitLong(argument);
    const OptionRow* row = FindLong(table, name);
    if (row == nullptr) return UnknownOption(table, name);
    const std::string* next = i + 1 < arguments.size() ? &arguments[i + 1] : nullptr;
    NXDKIT_TRY(CheckLong(table, *row, name, equals_value, next));
    normal.push_back(name + equals_value);
    if (TakesValue(*row) && equals_value.empty()) normal.push_back(arguments[++i]);
  }
  return normal;
}

// CLI11's spelling of the names: "-j,--jobs", and "!--no-xser" for what means false.
std::string Cli11Names(const OptionRow& row) {
  std::string names = row.short_name != 0 ? fmt::format("-{}", row.short_name) : "";
  for (const std::string& name : LongNames(row)) {
    const bool off = row.kind == OptionKind::kToggle && name.starts_with("--no-");
    names += fmt::format("{}{}{}", names.empty() ? "" : ",", off ? "!" : "", name);
  }
  return names;
}

CLI::Option* AddTo(CLI::App& app, const OptionRow& row) {
  switch (row.kind) {
    case OptionKind::kFlag:
    case OptionKind::kToggle:
      return app.add_flag(Cli11Names(row));
    case OptionKind::kPositional:
      return row.repeats
                 ? app.add_option(row.name)->expected(1, kMaxPositionals)->allow_extra_args()
                 : app.add_option(row.name);
    case OptionKind::kValue:
      break;
  }
  // No extra arguments: one occurrence is one value, and "[a,b]" is not a list.
  return app.add_option(Cli11Names(row))
      ->multi_option_policy(row.repeats ? CLI::MultiOptionPolicy::TakeAll
                                        : CLI::MultiOptionPolicy::TakeLast)
      ->allow_extra_args(false);
}

Status StoreResults(const OptionRow& row, const CLI::Option& option) {
  const CLI::results_t& results = option.results();
  if (row.repeats) {
    for (const std::string& value : results) NXDKIT_TRY(row.set(value));
    return OkStatus();
  }
  return row.set(results.back());
}

// What CLI11 could not place: an unknown short option, or one argument too many.
Status CheckRemaining(const OptionTable& table, const std::vector<std::string>& remaining) {
  for (const std::string& argument : remaining)
    if (argument.size() > 1 && argument[0] == '-' && argument != "--")
      return UnknownOption(table, argument);
  for (const std::string& argument : remaining)
    if (argument != "--")
      return UsageError(fmt::format("unexpected argument \"{}\"", argument))
          .hint("--help shows the usage");
  return OkStatus();
}

// CLI11 throws when the last argument is a short option without its value.
Error TranslateMismatch(const OptionTable& table, const std::string& last) {
  const OptionRow* row = last.size() > 1 ? FindShort(table, last.back()) : nullptr;
  if (row != nullptr) return MissingValue(*row);
  return UsageError(fmt::format("cannot read the argument \"{}\"", last));
}

}  // namespace

Result<GivenRows> ParseArguments(const OptionTable& table,
                                 const std::vector<std::string>& arguments) {
  NXDKIT_ASSIGN(std::vector<std::string> normal, ApplyHouseRules(table, arguments));
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  std::vector<CLI::Option*> options;
  for (const OptionRow& row : table.rows()) options.push_back(AddTo(app, row));
  const std::string last = normal.empty() ? "" : normal.back();
  std::ranges::reverse(normal);  // CLI11 takes a vector from its back
  try {
    app.parse(std::move(normal));
  } catch (const CLI::ArgumentMismatch&) {
    return TranslateMismatch(table, last);
  } catch (const std::exception& error) {
    return UsageError(error.what());
  }
  NXDKIT_TRY(CheckRemaining(table, app.remaining()));
  GivenRows given;
  for (size_t i = 0; i < options.size(); ++i) {
    if (options[i]->results().empty()) continue;
    NXDKIT_TRY(StoreResults(table.rows()[i], *options[i]));
    given.push_back(&table.rows()[i]);
  }
  return given;
}

Status CheckRequired(const OptionTable& table, const GivenRows& given) {
  for (const OptionRow& row : table.rows()) {
    if (!row.required || std::ranges::find(given, &row) != given.end()) continue;
    return UsageError(fmt::format("{} is missing", DisplayName(row)))
        .hint("--help shows the usage");
  }
  return OkStatus();
}

bool WantsJson(const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--json") return true;
  }
  return false;
}

}  // namespace nxdkit::tool
