#include "tools/cli/option_table.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/tensor/dtype.h"
#include "tools/cli/house_rules.h"

namespace nxdkit::tool {
namespace {

constexpr int kMaxPositionals = 10'000;
constexpr const char* kCompletesNames[] = {"", "path", "folder", "folder or URL"};

// CLI11's spelling of "jobs,j": "--jobs,-j"; with `off`, "!--no-xser" for the negative.
std::string Cli11Names(std::string_view names, bool off = false) {
  std::string text;
  for (const std::string_view name : Split(names, ',')) {
    text += fmt::format("{}{}{}", text.empty() ? "" : ",", name.size() == 1 ? "-" : "--", name);
    if (off) text += fmt::format(",!--no-{}", name);
  }
  return text;
}

std::string RangeText(IntegerRange range) {
  const IntegerRange any;
  if (range.min == any.min && range.max == any.max) return "a whole number";
  if (range.max == any.max) return fmt::format("a whole number of at least {}", range.min);
  return fmt::format("a whole number from {} to {}", range.min, range.max);
}

std::optional<int> IntegerIn(IntegerRange range, std::string_view text) {
  const std::optional<int64_t> number = ParseNumber<int64_t>(text);
  if (!number || *number < range.min || *number > range.max) return std::nullopt;
  return static_cast<int>(*number);
}

// The shortest exact spelling with a binary unit: "512MiB", "1000B".
std::string SizeText(uint64_t bytes) {
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  while (bytes > 0 && bytes % 1024 == 0 && unit + 1 < std::size(kUnits)) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

OptionFacts FactsOf(const CLI::Option& option) {
  OptionFacts facts;
  facts.group = option.get_group();
  facts.name = option.get_single_name();
  facts.positional = option.get_positional();
  if (!option.get_snames().empty()) facts.short_name = option.get_snames().front();
  for (const std::string& name : option.get_lnames()) facts.names.push_back("--" + name);
  facts.value = option.get_type_name();
  const std::vector<std::string_view> words = Split(facts.value, '|');
  if (words.size() > 1) facts.choices.assign(words.begin(), words.end());
  facts.help = option.get_description();
  facts.default_text = option.get_default_str();
  const auto* const completes = std::ranges::find(kCompletesNames, option.get_option_text());
  facts.completes = static_cast<Completes>(completes - std::begin(kCompletesNames));
  facts.required = option.get_required();
  facts.repeats = option.get_multi_option_policy() == CLI::MultiOptionPolicy::TakeAll;
  return facts;
}

}  // namespace

std::vector<std::string> OptionFacts::AllNames() const {
  std::vector<std::string> all = names;
  if (!short_name.empty()) all.push_back("-" + short_name);
  return all;
}

OptionRow OptionRow::completes(Completes what) const {
  option_->option_text(kCompletesNames[static_cast<size_t>(what)]);
  return *this;
}

OptionRow OptionRow::required(bool required) const {
  option_->required(required);
  return *this;
}

OptionRow OptionRow::default_text(const std::string& text) const {
  option_->default_str(text);
  return *this;
}

OptionTable::OptionTable() : app_(std::make_unique<CLI::App>()) {
  app_->set_help_flag();
  app_->allow_extras();
}

OptionTable::~OptionTable() = default;

void OptionTable::Group(std::string_view heading) {
  app_->option_defaults()->group(std::string(heading));
}

CLI::Option* OptionTable::Add(const std::string& names, std::string_view help, Store store) {
  const std::string name = names.substr(0, names.find(','));
  CLI::callback_t callback = [this, name, store = std::move(store)](const auto& values) {
    for (const std::string& value : values) {
      const std::string expected = store(value);
      if (!expected.empty() && failure_.ok())
        failure_ = BadUsage("option {}: found \"{}\", expected {}", name, value, expected);
    }
    return failure_.ok();
  };
  return app_->add_option(names, std::move(callback), std::string(help));
}

// No extra arguments: one occurrence is one value, and "[a,b]" is not a list.
OptionRow OptionTable::AddValue(std::string_view names, std::string_view value,
                                std::string_view help, const std::string& default_text,
                                Store store) {
  return OptionRow(Add(Cli11Names(names), help, std::move(store))
                       ->type_name(std::string(value))
                       ->default_str(default_text)
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast)
                       ->allow_extra_args(false));
}

OptionRow OptionTable::AddFlag(std::string_view names, bool negatable, std::string_view help,
                               const std::string& default_text, std::function<void(bool)> store) {
  return OptionRow(app_->add_flag_function(
                           Cli11Names(names, negatable),
                           [store = std::move(store)](int64_t count) { store(count > 0); },
                           std::string(help))
                       ->default_str(default_text)
                       ->multi_option_policy(CLI::MultiOptionPolicy::TakeLast));
}

OptionRow OptionTable::AddInteger(std::string_view names, std::string_view value,
                                  std::string_view help, const std::string& default_text,
                                  IntegerRange range, std::function<void(int)> store) {
  return AddValue(names, value, help, default_text, [=](const std::string& text) -> std::string {
    const std::optional<int> number = IntegerIn(range, text);
    if (!number) return RangeText(range);
    store(*number);
    return "";
  });
}

OptionRow OptionTable::Size(std::string_view names, uint64_t* to, std::string_view help) {
  return AddValue(names, "SIZE", help, SizeText(*to), [to](const std::string& text) -> std::string {
    const Result<uint64_t> bytes = ParseBytes(text);
    if (!bytes.ok() || *bytes == 0) return "a size such as 500M, 4G or 4GiB";
    *to = *bytes;
    return "";
  });
}

OptionRow OptionTable::AddText(std::string_view names, std::string_view value,
                               const std::vector<std::string>& choices, std::string_view help,
                               const std::string& default_text,
                               std::function<void(const std::string&)> store) {
  const std::string words = fmt::format("{}", fmt::join(choices, "|"));
  return AddValue(names, choices.empty() ? value : words, help, default_text,
                  [=, dtype = names == "dtype"](const std::string& text) -> std::string {
                    const std::string word = dtype ? WordOfDtype(text, choices) : text;
                    if (!choices.empty() && std::ranges::find(choices, word) == choices.end())
                      return "one of " + words;
                    store(word);
                    return "";
                  });
}

OptionRow OptionTable::OptionalText(std::string_view names, std::string_view value,
                                    std::optional<std::string>* to, std::string_view help) {
  return AddValue(names, fmt::format("[{}]", value), help, "",
                  [to](const std::string& text) { return *to = text, ""; });
}

OptionRow OptionTable::TextList(std::string_view names, std::string_view value,
                                std::vector<std::string>* to, std::string_view help) {
  const auto row =
      AddText(names, value, {}, help, "", [to](const std::string& text) { to->push_back(text); });
  app_->get_options().back()->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return row;
}

OptionRow OptionTable::Positional(std::string_view name, std::string* to, std::string_view help) {
  const auto store = [to](const std::string& text) { return *to = text, ""; };
  return OptionRow(Add(std::string(name), help, store)).completes(Completes::kPath).required(true);
}

OptionRow OptionTable::Positionals(std::string_view name, std::vector<std::string>* to,
                                   std::string_view help) {
  const auto store = [to](const std::string& text) { return to->push_back(text), ""; };
  CLI::Option* option = Add(std::string(name), help, store);
  option->expected(1, kMaxPositionals)->allow_extra_args();
  option->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  return OptionRow(option).completes(Completes::kPath);
}

void OptionTable::Argument(std::string_view names, const KindOption& option,
                           artifact::Arguments* to) {
  const kinds::OptionRow& row = option.row;
  const auto store = [to, name = std::string(row.name())](const auto& value) {
    to->Set(name, value);
  };
  if (row.is_number())
    AddInteger(names, row.value, option.help, "", kPositive, store);
  else if (row.is_toggle())
    AddFlag(names, true, option.help, "", store);
  else
    AddText(names, row.value, option.choices, option.help, "", store)
        .completes(row.names_a == kinds::ValueKind::kPath     ? Completes::kPath
                   : row.names_a == kinds::ValueKind::kFolder ? Completes::kFolder
                                                              : Completes::kNothing);
  kinds_[app_->get_options().back()] = option.kinds;
}

std::vector<OptionFacts> OptionTable::Facts() const {
  std::vector<OptionFacts> facts;
  for (const CLI::Option* option : std::as_const(*app_).get_options()) {
    facts.push_back(FactsOf(*option));
    if (const auto kinds = kinds_.find(option); kinds != kinds_.end())
      facts.back().kinds = kinds->second;
  }
  return facts;
}

Status OptionTable::Parse(const std::vector<std::string>& arguments) {
  const std::vector<OptionFacts> facts = Facts();
  NXDKIT_ASSIGN(std::vector<std::string> normal, ApplyHouseRules(facts, arguments));
  const std::string last = normal.empty() ? "" : normal.back();
  std::ranges::reverse(normal);  // CLI11 takes a vector from its back
  try {
    app_->parse(std::move(normal));
  } catch (const CLI::ArgumentMismatch&) {
    return EndsTooEarly(facts, last);
  } catch (const CLI::ConversionError&) {  // failure_ has the option
  } catch (const CLI::RequiredError&) {    // CheckRequired names it
  } catch (const std::exception& error) {
    return Error(Errc::kUsage, error.what());
  }
  NXDKIT_TRY(CheckRemaining(facts, app_->remaining()));
  if (!failure_.ok()) return failure_;
  for (size_t i = 0; i < facts.size(); ++i)
    for (const std::string& value : app_->get_options()[i]->results())
      NXDKIT_TRY(CheckLocal(facts[i], value));
  return OkStatus();
}

Status OptionTable::CheckRequired() const {
  for (const CLI::Option* option : std::as_const(*app_).get_options())
    if (option->get_required() && option->count() == 0)
      return BadUsage("{} is missing", option->get_name()).hint("--help shows the usage");
  return OkStatus();
}

}  // namespace nxdkit::tool
