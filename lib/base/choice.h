// One of several is taken: the tag of a root, the checkpoint of a run, the weights of a folder.
// Which one, and the record of it, so that nobody is left to guess.
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

// Where there was one candidate alone nothing was chosen, and there is no record.
struct Choice {
  std::string path;  // what is taken
  size_t of = 0;     // how many there are, with it; at least 2
  // What decided: "number" or "time" of the newest, "tracker" (a file that names it), "option" (the
  // user), "order" (the first in the order that a format gives).
  std::string by;
  bool operator==(const Choice&) const = default;
};
std::string ChoiceText(const Choice& choice);  // "took root/step_100 of 3, by number"

// What is said on the way to a result.
struct Said {
  std::vector<std::string> warnings;
  std::vector<Choice> choices;  // what was taken of several
  void AddSaid(const Said& more);
};

// The number that a name tells, and what it counts: "step_100", "global_step_100", "step=100",
// "llama--step=100.ckpt", "epoch=3-step=100", "iter_0000100", "checkpoint-100", "100", "save100".
// Of several, steps count before iterations, checkpoints and epochs.
struct NameNumber {
  std::string counts;  // "step", "iter", "checkpoint", "epoch"; else what stands before the number
  std::string digits;  // without zeros at the front; "0" for zero. Of any length
  // As numbers, where both count the same.
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
  std::string by;    // "number", "time"; "" where there is one alone
  // Where numbers decide and times say another: both, for a warning. "" otherwise.
  std::string doubt;
};
// The highest number of those that count the same; times decide between what is left, since copies
// and clocks change them. nullopt where they are equal too, or there is no candidate.
std::optional<Newest> FindNewest(std::span<const DatedName> candidates);

// "a, b, c and 7 more"
std::string FirstNames(std::span<const std::string> names, size_t shown = 3);

}  // namespace nxdkit
