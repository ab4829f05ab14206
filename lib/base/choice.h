// The choice of one among several: the tag of a root, the checkpoint of a run, the weights of a
// folder. It is recorded, so that nobody has to guess which one was taken.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nxdkit {

// A single candidate is not a choice, and leaves no record.
struct Choice {
  std::string path;  // the path taken
  size_t of = 0;     // the number of candidates, this one included; at least 2
  // The criterion: "number" or "time" of the newest, "tracker" (a file that names it), "option"
  // (the user), "order" (the first in the order that a format gives).
  std::string by;
  bool operator==(const Choice&) const = default;
};
std::string ChoiceText(const Choice& choice);  // "took root/step_100, the highest number of 3"

// Remarks made on the way to a result.
struct Said {
  std::vector<std::string> warnings;
  std::vector<Choice> choices;  // the choices made
  void AddSaid(const Said& more);
};

// The number in a name, and what it counts: "step_100", "global_step_100", "step=100",
// "llama--step=100.ckpt", "epoch=3-step=100", "iter_0000100", "checkpoint-100", "100", "save100".
// If there are several, steps count before iterations, checkpoints and epochs.
struct NameNumber {
  std::string counts;  // "step", "iter", "checkpoint", "epoch"; else the text before the number
  std::string digits;  // without leading zeros; "0" for zero. Of any length
  // Compares the numbers; both must count the same.
  std::strong_ordering CompareNumber(const NameNumber& other) const;
};
std::optional<NameNumber> NumberOfName(std::string_view name);

using TimeStamp = std::pair<int64_t, int64_t>;  // seconds since 1970, nanoseconds

struct DatedName {
  std::string name;
  TimeStamp time;  // when it was finished
};
struct Newest {
  size_t index = 0;  // of the candidates
  std::string by;    // "number", "time"; "" for a single candidate
  // The numbers and times, for a warning, where they disagree; else "".
  std::string doubt;
};
// The highest number among those that count the same; times break ties only, since copies and
// clocks change them. nullopt if the times are equal too, or there is no candidate.
std::optional<Newest> FindNewest(std::span<const DatedName> candidates);

// "a, b, c and 7 more"
std::string FirstNames(std::span<const std::string> names, size_t shown = 3);

}  // namespace nxdkit
