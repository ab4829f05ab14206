// One row per key of the configuration. Parsing, type checks, defaults, merging, printing and the
// table in README.md are all derived from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "trainer/config/config.h"

namespace nxdkit::trainer {

// Where a key's value lives in a Config; its alternative is the key's type. Value*: an open map.
using ConfigSlot =
    std::variant<bool*, int64_t*, double*, std::string*, std::optional<bool>*,
                 std::optional<int64_t>*, std::optional<double>*, std::optional<std::string>*,
                 std::array<double, 2>*, std::vector<std::string>*, Value*>;

enum class KeyOwner { kEasyR1, kPort, kOurs };

enum class KeyLimit {
  kNone,
  kPositive,     // > 0
  kNotNegative,  // >= 0
  kAboveOne,     // > 1
  kFraction,     // 0 to 1, both included
  kInside,       // between 0 and 1, both excluded
  kBeta,         // 0 <= x < 1
  kUnlimited,    // -1 (no limit) or > 0
  kSeconds,      // 1 to the seconds of a day
  kMass,         // more than 0 as a float, at most 1
  kTemperature,  // as the engine takes it; kTemperatureOrZero: 0 too
  kTemperatureOrZero,
  kDtype,   // an element type; an alias of one in `words` becomes that word
  kFile,    // an existing file, when set
  kFolder,  // an existing folder, when set
  kPath,    // an output, or a path with a rule of its own
  kData,    // PATH, PATH@SPLIT, exec:COMMAND
};

enum class KeyUse {
  kUsed,
  kNoEffect,  // accepted; a note says why it changes nothing here
  kOnly,      // only the value in `words` is supported; others are refused with the note
};

struct ConfigKey {
  std::string path;
  KeyUse use;
  KeyLimit limit;
  std::string_view words;  // "a|b": the accepted values; "" for any
  std::string_view text;   // its meaning; the reason for kNoEffect and kOnly
  KeyOwner owner;
  std::function<ConfigSlot(Config&)> slot = nullptr;
  std::optional<UnreadValue> unread = std::nullopt;  // the default of a key that nothing reads
};

// Whether the value is a path, so that ~ is the home folder and a URL is refused.
bool IsPathLimit(KeyLimit limit);

// In print order.
std::span<const ConfigKey> ConfigKeys();
// The row of a full path; nullptr if there is none.
const ConfigKey* FindConfigKey(std::string_view path);
// Whether there are keys below `path`: "worker.actor".
bool IsConfigGroup(std::string_view path);
// The origin of a key that cannot be set ("data.max_prompt_length"); "" for other names.
std::string_view DerivedFrom(std::string_view path);

std::string_view TypeText(const ConfigSlot& slot);  // "int", "float?", "list of str"
std::string SlotText(const ConfigSlot& slot);       // as YAML on one line
// Puts a value into a slot. "" on success, else the fault: "expected int, found the string \"x\"".
// The slot is then unchanged. A float takes an integer; an integer takes no fraction; a string
// takes any scalar but null, as written; null is for optional keys; quoted text is a string,
// whatever it looks like. An open map is merged key by key.
std::string AssignSlot(const ConfigSlot& slot, const Value& value);
std::vector<std::string> SplitWords(std::string_view words);

}  // namespace nxdkit::trainer
