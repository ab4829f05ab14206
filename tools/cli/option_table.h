// PRIVATE to tools/: the options of a command. CLI11's App is the table; --help, --completion,
// --help --json and the check of the man pages are read from it, so that they cannot disagree.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "formats/kinds/options.h"
#include "lib/base/error.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace nxdkit::tool {

// The thing that the value names. Shells complete it, and a URL is refused for a local path.
enum class Completes { kNothing, kPath, kFolder, kFolderOrUrl };

struct IntegerRange {
  int64_t min = std::numeric_limits<int>::min();
  int64_t max = std::numeric_limits<int>::max();
};
inline constexpr IntegerRange kPositive{1, std::numeric_limits<int>::max()};

// An option as one kind of artifact has it.
struct OfKind {
  std::string kind;
  std::string value;
  std::string help;
};

// The facts about one option.
struct OptionFacts {
  std::string group;  // heading in the help
  std::string name;   // "tp"; a positional: "INPUT"
  bool positional = false;
  std::string short_name;            // "j", or ""
  std::vector<std::string> names;    // "--xser", "--no-xser", then aliases; empty for a positional
  std::string value;                 // placeholder for the value in the help: "N"; "" for a flag
  std::vector<std::string> choices;  // the only values it takes, when not empty
  std::string help;                  // a phrase, no full stop
  std::string default_text;          // "" when there is none worth showing
  Completes completes = Completes::kNothing;
  std::vector<OfKind> kinds;  // that it applies to; empty: to all
  bool required = false;
  bool repeats = false;  // every occurrence counts; otherwise the last one wins

  // The name in messages: "--tp", or "INPUT".
  std::string DisplayName() const { return positional ? name : "--" + name; }
  // "--jobs", "-j"
  std::vector<std::string> AllNames() const;
  bool ValueMayBeLeftOut() const { return value.starts_with('['); }
};

// An option that was added, for settings that few options need.
class OptionRow {
 public:
  explicit OptionRow(CLI::Option* option) : option_(option) {}
  OptionRow completes(Completes what) const;
  OptionRow required(bool required) const;
  OptionRow default_text(const std::string& text) const;

 private:
  CLI::Option* option_;
};

// Names are given as one list, the main name first, one letter for a short name: "jobs,j",
// "tp,tensor-parallel-size". The pointers must outlive the parsing. A std::optional target has no
// default; for any other the default is its value when the option is added.
class OptionTable {
 public:
  OptionTable();
  ~OptionTable();
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;

  void Group(std::string_view heading);

  OptionRow Flag(std::string_view names, bool* to, std::string_view help) {  // --force
    return AddFlag(names, false, help, "", [to](bool on) { *to = on; });
  }
  template <typename To>  // --xser and --no-xser
  OptionRow Toggle(std::string_view names, To* to, std::string_view help) {
    return AddFlag(names, true, help, DefaultText(*to), [to](bool on) { *to = on; });
  }
  template <typename To>
  OptionRow Integer(std::string_view names, std::string_view value, To* to, IntegerRange range,
                    std::string_view help) {
    return AddInteger(names, value, help, DefaultText(*to), range, [to](int n) { *to = n; });
  }
  // "4G", "500M", "1.5GiB"
  OptionRow Size(std::string_view names, uint64_t* to, std::string_view help);
  template <typename To>
  OptionRow Text(std::string_view names, std::string_view value, To* to, std::string_view help) {
    return AddText(names, value, {}, help, DefaultText(*to), [to](auto& text) { *to = text; });
  }
  // An option whose value may be left out, which is "" then. The next word is taken as the value if
  // it does not begin with "-".
  OptionRow OptionalText(std::string_view names, std::string_view value,
                         std::optional<std::string>* to, std::string_view help);
  template <typename To>
  OptionRow Choice(std::string_view names, const std::vector<std::string>& choices, To* to,
                   std::string_view help) {
    return AddText(names, "", choices, help, DefaultText(*to), [to](auto& text) { *to = text; });
  }
  OptionRow TextList(std::string_view names, std::string_view value, std::vector<std::string>* to,
                     std::string_view help);
  // Required, and a path, unless said otherwise.
  OptionRow Positional(std::string_view name, std::string* to, std::string_view help);
  // All remaining arguments: the last positional of a command. There may be none.
  OptionRow Positionals(std::string_view name, std::vector<std::string>* to, std::string_view help);

  // An option of kinds of artifacts, as one of them has it: a number, a toggle, one of `choices`,
  // or a text is stored in `to` under the row's main name.
  struct KindOption {
    kinds::OptionRow row;
    std::vector<std::string> choices;
    std::string help;
    std::vector<OfKind> kinds;  // which have it; empty: it applies to all
  };
  void Argument(std::string_view names, const KindOption& option, artifact::Arguments* to);

  std::vector<OptionFacts> Facts() const;  // in the order of adding

  // `arguments` is argv without the program's name. Stores every given option; if it was given more
  // than once, the last value, unless it repeats. Every failure names the option: for an unknown
  // one the closest known name is suggested (kUsage), and a URL is kUnsupported.
  Status Parse(const std::vector<std::string>& arguments);

  // kUsage when a required option is missing; separate from Parse because `--help` alone is enough.
  Status CheckRequired() const;

 private:
  // Stores a value; a wrong value sets what was expected instead.
  using Store = std::function<std::string(const std::string& text)>;

  static std::string DefaultText(bool on) { return on ? "on" : "off"; }
  static std::string DefaultText(int number) { return std::to_string(number); }
  static std::string DefaultText(const std::string& text) { return text; }
  template <typename T>
  static std::string DefaultText(const std::optional<T>&) {
    return "";
  }
  CLI::Option* Add(const std::string& names, std::string_view help, Store store);
  OptionRow AddValue(std::string_view names, std::string_view value, std::string_view help,
                     const std::string& default_text, Store store);
  OptionRow AddFlag(std::string_view names, bool negatable, std::string_view help,
                    const std::string& default_text, std::function<void(bool)> store);
  OptionRow AddInteger(std::string_view names, std::string_view value, std::string_view help,
                       const std::string& default_text, IntegerRange range,
                       std::function<void(int)> store);
  OptionRow AddText(std::string_view names, std::string_view value,
                    const std::vector<std::string>& choices, std::string_view help,
                    const std::string& default_text, std::function<void(const std::string&)> store);

  std::unique_ptr<CLI::App> app_;
  std::map<const CLI::Option*, std::vector<OfKind>> kinds_;
  Status failure_;  // of the first value that could not be stored
};

}  // namespace nxdkit::tool
