#include "formats/compile_cache/lite_metadata.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>

#include "formats/compile_cache/compiler_options.h"
#include "formats/compile_cache/lite_tree.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/json/json.h"
#include "lib/system/command_text.h"
#include "lib/system/paths.h"

namespace nxdkit::neff {
namespace {

// Known targets of the compiler and the most logical cores per physical core; an unknown target is
// not a fault.
struct Target {
  std::string_view name;
  uint32_t most_lnc;
};
constexpr Target kTargets[] = {{"inf1", 1},  {"inf2", 1}, {"trn1", 1},
                               {"trn1n", 1}, {"trn2", 2}, {"trn3", 2}};

bool IsIndexOrNull(const Json& value) {
  return value.is_null() || (value.is_number_integer() && value >= 0);
}

bool IsListOfIndices(const Json& value) {
  return value.is_array() && std::ranges::all_of(value, [](const Json& each) {
           return each.is_number_integer() && each >= 0;
         });
}

// {"0": 3}: JSON keys can only be strings.
bool IsMapOfIndices(const Json& value) {
  if (!value.is_object()) return false;
  for (const auto& [key, input] : value.items())
    if (!ParseNumber<uint64_t>(key) || !input.is_number_integer() || input < 0) return false;
  return true;
}

struct Rule {
  const char* key;
  const char* expected;
  bool (*holds)(const Json& value);
};
constexpr Rule kRules[] = {
    {"created_timestamp", "a string", [](const Json& v) { return v.is_string(); }},
    {"output_count", "an integer or null", IsIndexOrNull},
    {"unused_input_indices", "an array of integers or null",
     [](const Json& v) { return v.is_null() || IsListOfIndices(v); }},
    {"has_rng_seed_parameter", "a boolean", [](const Json& v) { return v.is_boolean(); }},
    {"io_map", "an object of integers or null",
     [](const Json& v) { return v.is_null() || IsMapOfIndices(v); }},
};

}  // namespace

Result<LiteMarker> ParseLiteMarker(std::string_view text) {
  LiteMarker marker;
  bool has_time = false;
  bool has_size = false;
  uint64_t offset = 0;
  for (const std::string_view line : Split(text, '\n')) {
    const std::string_view name = line.substr(0, line.find(':'));
    const std::string_view value = line.substr(std::min(line.size(), name.size() + 1));
    const auto wrong = [&](const char* expected) {
      return Corrupt("\"{}\" found, {} expected", line, expected).at(offset);
    };
    if (name == "completed") {
      const auto seconds = ParseNumber<double>(value);
      if (!seconds) return wrong("unix seconds");
      marker.completed = *seconds;
      has_time = true;
    } else if (name == "neff_size") {
      const auto bytes = ParseNumber<uint64_t>(value);
      if (!bytes) return wrong("a number of bytes");
      marker.neff_bytes = *bytes;
      has_size = true;
    } else if (name == "completed_by_rank") {
      marker.rank = ParseNumber<int64_t>(value);
      if (!marker.rank) return wrong("a rank");
    }
    offset += line.size() + 1;
  }
  if (!has_time) return Corrupt("there is no line \"completed:\"").at(text.size());
  if (!has_size) return Corrupt("there is no line \"neff_size:\"").at(text.size());
  return marker;
}

Result<std::vector<std::string>> MetadataFaults(std::string_view text, std::string_view key) {
  NXDKIT_ASSIGN(const Json json, ParseJson(text, kLikePython));
  if (!json.is_object()) return Corrupt("{} found, an object expected", JsonTypeText(json));
  std::vector<std::string> faults;
  const Json* version = JsonFind(json, "version");
  if (version == nullptr || !version->is_number_integer() || *version != 0)
    faults.push_back(fmt::format("version: {} found, 0 expected: the engine reads no other",
                                 version == nullptr ? "nothing" : JsonExcerpt(*version)));
  const Json* name = JsonFind(json, "cache_key");
  if (name == nullptr || !name->is_string() || name->get<std::string>() != key)
    faults.push_back(
        fmt::format("cache_key: {} found, {} expected: the engine ends with \"Cache key mismatch\"",
                    name == nullptr ? "nothing" : JsonExcerpt(*name), key));
  for (const Rule& rule : kRules) {
    const auto value = json.find(rule.key);
    if (value == json.end())
      faults.push_back(fmt::format("{}: missing, {} expected", rule.key, rule.expected));
    else if (!rule.holds(*value))
      faults.push_back(
          fmt::format("{}: {} found, {} expected", rule.key, JsonExcerpt(*value), rule.expected));
  }
  return faults;
}

std::vector<EntryFault> CommandFaults(const std::string& text, std::string_view key,
                                      const std::optional<Header>& neff) {
  const Result<std::vector<std::string>> words = SplitCommand(text);
  if (!words.ok()) return {{"", words.error().message(), Severity::kRemark}};
  std::vector<EntryFault> faults;
  const auto wrong = [&](std::string message) {
    faults.push_back({"", std::move(message), Severity::kWrong});
  };
  const std::optional<std::string> output = OptionValue(*words, {"--output"});
  if (output && BaseName(*output) != LiteNeffName(key))
    wrong(fmt::format("--output names {}, expected {}", BaseName(*output), LiteNeffName(key)));
  const std::optional<std::string> target = OptionValue(*words, {"--target"});
  if (!target) faults.push_back({"", "there is no --target", Severity::kRemark});
  if (!neff) return faults;
  const std::optional<std::string> lnc = OptionValue(*words, {"--lnc", "--logical-nc-config"});
  const std::optional<uint32_t> cores = lnc ? ParseNumber<uint32_t>(*lnc) : std::nullopt;
  if (cores && neff->lnc != 0 && *cores != neff->lnc)
    wrong(fmt::format("--lnc is {}, the header of the NEFF says {}", *cores, neff->lnc));
  const auto* known =
      target ? std::ranges::find(kTargets, *target, &Target::name) : std::end(kTargets);
  if (known != std::end(kTargets) && neff->lnc > known->most_lnc)
    wrong(fmt::format(
        "--target {} has at most {} logical core of each, the header of the NEFF says {}", *target,
        known->most_lnc, neff->lnc));
  return faults;
}

}  // namespace nxdkit::neff
