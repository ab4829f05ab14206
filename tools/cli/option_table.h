// The options of a command as one table. --help, --completion, --help --json and the check of the
// man pages are all made from it, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace nxdkit::tool {

enum class OptionKind {
  kFlag,        // --force
  kToggle,      // --xser and --no-xser
  kValue,       // --tp N
  kPositional,  // INPUT
};

enum class Completes { kNothing, kPath, kFolder };  // what a shell offers for the value

struct OptionRow {
  OptionKind kind = OptionKind::kFlag;
  std::string group;                 // heading in the help
  std::string name;                  // "tp"; a positional: "INPUT"
  char short_name = 0;               // 'j', or 0
  std::vector<std::string> aliases;  // "tensor-parallel-size"
  std::string value;                 // what stands for the value in the help: "N"
  std::vector<std::string> choices;  // the only values it takes, when not empty
  std::string help;                  // a phrase, no full stop
  std::string default_text;          // "" when there is none worth saying
  Completes completes = Completes::kNothing;
  bool required = false;  // positionals and values
  bool repeats = false;   // every occurrence counts; otherwise the last one wins
  // Stores one value; flags and toggles get "true" or "false". kUsage when the value is wrong.
  std::function<Status(const std::string& value)> set;
};

struct IntegerRange {
  int64_t min = std::numeric_limits<int>::min();
  int64_t max = std::numeric_limits<int>::max();
};
inline constexpr IntegerRange kPositive{1, std::numeric_limits<int>::max()};

// Names are given as one list, the main name first, one letter for a short name: "jobs,j",
// "tp,tensor-parallel-size". The pointers must outlive the parsing. The row that comes back may be
// adjusted (completes, required, default_text) until the next one is added.
class OptionTable {
 public:
  // The heading of the rows that follow.
  void Group(std::string_view heading) { group_ = heading; }

  OptionRow& Flag(std::string_view names, bool* to, std::string_view help);
  OptionRow& Toggle(std::string_view names, std::optional<bool>* to, std::string_view help);
  OptionRow& Toggle(std::string_view names, bool* to, std::string_view help);
  OptionRow& Integer(std::string_view names, std::string_view value, std::optional<int>* to,
                     IntegerRange range, std::string_view help);
  OptionRow& Integer(std::string_view names, std::string_view value, int* to, IntegerRange range,
                     std::string_view help);
  // "4G", "500M", "1.5GiB"; see ParseSize in values.h.
  OptionRow& Size(std::string_view names, uint64_t* to, std::string_view help);
  OptionRow& Text(std::string_view names, std::string_view value, std::optional<std::string>* to,
                  std::string_view help);
  OptionRow& Text(std::string_view names, std::string_view value, std::string* to,
                  std::string_view help);
  OptionRow& TextList(std::string_view names, std::string_view value, std::vector<std::string>* to,
                      std::string_view help);
  OptionRow& Choice(std::string_view names, std::vector<std::string> choices,
                    std::optional<std::string>* to, std::string_view help);
  OptionRow& Choice(std::string_view names, std::vector<std::string> choices, std::string* to,
                    std::string_view help);
  OptionRow& Positional(std::string_view name, std::string* to, std::string_view help);
  // All arguments that are left: the last positional of a command. None is fine, too.
  OptionRow& Positionals(std::string_view name, std::vector<std::string>* to,
                         std::string_view help);

  const std::deque<OptionRow>& rows() const { return rows_; }

 private:
  OptionRow& Add(OptionKind kind, std::string_view names, std::string_view value,
                 std::string_view help);
  std::string group_;
  std::deque<OptionRow> rows_;  // a deque: rows that were handed out stay where they are
};

// Every long name of a row with its dashes: "--xser", "--no-xser"; aliases after the main name.
std::vector<std::string> LongNames(const OptionRow& row);
// How messages call it: "--tp", or "INPUT".
std::string DisplayName(const OptionRow& row);
bool TakesValue(const OptionRow& row);

}  // namespace nxdkit::tool
