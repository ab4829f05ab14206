#include "tools/cli/option_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tools/cli/values.h"

namespace nxdkit::tool {
namespace {

// "jobs,j" -> {"jobs", "j"}
std::vector<std::string> SplitNames(std::string_view names) {
  std::vector<std::string> parts;
  while (true) {
    const size_t comma = names.find(',');
    parts.emplace_back(names.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    names.remove_prefix(comma + 1);
  }
}

std::string JoinChoices(const std::vector<std::string>& choices) {
  return fmt::format("{}", fmt::join(choices, "|"));
}

Status CheckChoice(const OptionRow& row, const std::string& value) {
  if (std::ranges::find(row.choices, value) != row.choices.end()) return OkStatus();
  return Error(Errc::kUsage, fmt::format("option {}: found \"{}\", expected one of {}",
                                         DisplayName(row), value, JoinChoices(row.choices)));
}

template <typename To>
auto StoreInteger(const OptionRow* row, IntegerRange range, To* to) {
  return [row, range, to](const std::string& value) -> Status {
    NXDKIT_ASSIGN(const int64_t number, ParseInteger(DisplayName(*row), value, range));
    *to = static_cast<int>(number);
    return OkStatus();
  };
}

template <typename To>
auto StoreText(To* to) {
  return [to](const std::string& value) -> Status {
    *to = value;
    return OkStatus();
  };
}

template <typename To>
auto StoreChoice(const OptionRow* row, To* to) {
  return [row, to](const std::string& value) -> Status {
    NXDKIT_TRY(CheckChoice(*row, value));
    *to = value;
    return OkStatus();
  };
}

template <typename To>
auto StoreBool(To* to) {
  return [to](const std::string& value) -> Status {
    *to = value == "true";
    return OkStatus();
  };
}

}  // namespace

OptionRow& OptionTable::Add(OptionKind kind, std::string_view names, std::string_view value,
                            std::string_view help) {
  OptionRow& row = rows_.emplace_back();
  row.kind = kind;
  row.group = group_;
  row.value = value;
  row.help = help;
  std::vector<std::string> parts = SplitNames(names);
  row.name = parts.front();
  for (size_t i = 1; i < parts.size(); ++i) {
    if (parts[i].size() == 1)
      row.short_name = parts[i].front();
    else
      row.aliases.push_back(std::move(parts[i]));
  }
  return row;
}

OptionRow& OptionTable::Flag(std::string_view names, bool* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kFlag, names, "", help);
  row.set = StoreBool(to);
  return row;
}

OptionRow& OptionTable::Toggle(std::string_view names, std::optional<bool>* to,
                               std::string_view help) {
  OptionRow& row = Add(OptionKind::kToggle, names, "", help);
  row.set = StoreBool(to);
  return row;
}

OptionRow& OptionTable::Toggle(std::string_view names, bool* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kToggle, names, "", help);
  row.default_text = (*to ? "--" : "--no-") + row.name;
  row.set = StoreBool(to);
  return row;
}

OptionRow& OptionTable::Integer(std::string_view names, std::string_view value,
                                std::optional<int>* to, IntegerRange range, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, value, help);
  row.set = StoreInteger(&row, range, to);
  return row;
}

OptionRow& OptionTable::Integer(std::string_view names, std::string_view value, int* to,
                                IntegerRange range, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, value, help);
  row.default_text = fmt::format("{}", *to);
  row.set = StoreInteger(&row, range, to);
  return row;
}

OptionRow& OptionTable::Size(std::string_view names, uint64_t* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, "SIZE", help);
  row.default_text = SizeText(*to);
  row.set = [&row, to](const std::string& value) -> Status {
    NXDKIT_ASSIGN(*to, ParseSize(DisplayName(row), value));
    return OkStatus();
  };
  return row;
}

OptionRow& OptionTable::Text(std::string_view names, std::string_view value,
                             std::optional<std::string>* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, value, help);
  row.set = StoreText(to);
  return row;
}

OptionRow& OptionTable::Text(std::string_view names, std::string_view value, std::string* to,
                             std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, value, help);
  row.default_text = *to;
  row.set = StoreText(to);
  return row;
}

OptionRow& OptionTable::TextList(std::string_view names, std::string_view value,
                                 std::vector<std::string>* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, value, help);
  row.repeats = true;
  row.set = [to](const std::string& text) -> Status {
    to->push_back(text);
    return OkStatus();
  };
  return row;
}

OptionRow& OptionTable::Choice(std::string_view names, std::vector<std::string> choices,
                               std::optional<std::string>* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, JoinChoices(choices), help);
  row.choices = std::move(choices);
  row.set = StoreChoice(&row, to);
  return row;
}

OptionRow& OptionTable::Choice(std::string_view names, std::vector<std::string> choices,
                               std::string* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kValue, names, JoinChoices(choices), help);
  row.choices = std::move(choices);
  row.default_text = *to;
  row.set = StoreChoice(&row, to);
  return row;
}

OptionRow& OptionTable::Positional(std::string_view name, std::string* to, std::string_view help) {
  OptionRow& row = Add(OptionKind::kPositional, name, "", help);
  row.required = true;
  row.completes = Completes::kPath;
  row.set = StoreText(to);
  return row;
}

OptionRow& OptionTable::Positionals(std::string_view name, std::vector<std::string>* to,
                                    std::string_view help) {
  OptionRow& row = Add(OptionKind::kPositional, name, "", help);
  row.repeats = true;
  row.set = [to](const std::string& value) {
    to->push_back(value);
    return OkStatus();
  };
  return row;
}

std::vector<std::string> LongNames(const OptionRow& row) {
  std::vector<std::string> names;
  if (row.kind == OptionKind::kPositional) return names;
  names.push_back("--" + row.name);
  if (row.kind == OptionKind::kToggle) names.push_back("--no-" + row.name);
  for (const std::string& alias : row.aliases) {
    names.push_back("--" + alias);
    if (row.kind == OptionKind::kToggle) names.push_back("--no-" + alias);
  }
  return names;
}

std::string DisplayName(const OptionRow& row) {
  return row.kind == OptionKind::kPositional ? row.name : "--" + row.name;
}

bool TakesValue(const OptionRow& row) { return row.kind == OptionKind::kValue; }

}  // namespace nxdkit::tool
