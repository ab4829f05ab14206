// PRIVATE to tools/: the options of kinds of artifacts (formats/kinds/options.h) as options of a
// command.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "formats/kinds/kind.h"
#include "tools/cli/option_table.h"

namespace nxdkit::tool {

// The rows that a command takes: for each kind those for these sides (kinds::OptionSide bits), and
// those without a kind for these sides.
struct OptionChoice {
  std::vector<std::pair<const kinds::Kind*, unsigned>> kinds;
  std::vector<std::string_view> common = {};
  std::vector<std::string_view> without = {};  // omitted from the kinds' rows
};
// The rows of all kinds, for these sides.
OptionChoice OfAllKinds(unsigned sides, std::vector<std::string_view> common,
                        std::vector<std::string_view> without = {});
// The rows for an artifact that a command only reads.
OptionChoice OfReader(std::vector<std::string_view> without = {});

// Adds the rows under the heading `heading`; what is given goes to `to`, by the row's main name. A
// row that several kinds have is one option. With a prefix, say "against-", the options are named
// --against-tp and so on, and have no long aliases: for a command that reads two artifacts.
void AddKindOptions(OptionTable& table, artifact::Arguments& to, const OptionChoice& choice,
                    std::string_view heading, std::string_view prefix = "");

// The names of all kinds except those omitted, as choices of an option.
std::vector<std::string> KindNames(std::vector<std::string_view> without = {});

// The first of these arguments in the order of the rows: "--bs"; nullopt if there is none.
std::optional<std::string> FirstOption(const artifact::Arguments& given);

}  // namespace nxdkit::tool
