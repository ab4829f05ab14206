#include "lib/base/choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <ctime>
#include <map>

#include "lib/base/text.h"

namespace nxdkit {
namespace {

// The words that may stand before a number, in the order in which they count.
struct Word {
  std::string_view text;
  std::string_view counts;
};
constexpr std::array<Word, 6> kWords = {{{"step", "step"},
                                         {"iteration", "iter"},
                                         {"iter", "iter"},
                                         {"checkpoint", "checkpoint"},
                                         {"ckpt", "checkpoint"},
                                         {"epoch", "epoch"}}};

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

std::string_view DigitsAt(std::string_view text, size_t at) {
  size_t end = at;
  while (end < text.size() && IsDigit(text[end])) ++end;
  return text.substr(at, end - at);
}

std::string WithoutZeros(std::string_view digits) {
  const size_t first = digits.find_first_not_of('0');
  return first == digits.npos ? "0" : std::string(digits.substr(first));
}

// The number after the last place of the word that has one.
std::optional<NameNumber> NumberAfter(std::string_view name, const Word& word) {
  for (size_t at = name.rfind(word.text); at != name.npos;
       at = at == 0 ? name.npos : name.rfind(word.text, at - 1)) {
    size_t begin = at + word.text.size();
    constexpr std::string_view kSeparators = "_-=";
    if (begin < name.size() && kSeparators.find(name[begin]) != kSeparators.npos) ++begin;
    if (const std::string_view digits = DigitsAt(name, begin); !digits.empty())
      return NameNumber{std::string(word.counts), WithoutZeros(digits)};
  }
  return std::nullopt;
}

// The number at the end of a name that has no other digits. A date has more, and counts nothing.
std::optional<NameNumber> NumberAtEnd(std::string_view name) {
  size_t begin = name.size();
  while (begin > 0 && IsDigit(name[begin - 1])) --begin;
  const std::string_view before = name.substr(0, begin);
  if (begin == name.size() || std::ranges::any_of(before, IsDigit)) return std::nullopt;
  return NameNumber{std::string(before), WithoutZeros(name.substr(begin))};
}

std::string TimeStampText(TimeStamp time) {
  const std::time_t seconds = time.first;
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr) return fmt::format("second {}", time.first);
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

// The indices of the candidates that no other surpasses with a higher number of the same count.
std::vector<size_t> Unsurpassed(std::span<const DatedName> candidates) {
  std::vector<std::optional<NameNumber>> numbers;
  for (const DatedName& candidate : candidates) numbers.push_back(NumberOfName(candidate.name));
  std::map<std::string, size_t> highest;  // by the word that is counted
  for (size_t i = 0; i < numbers.size(); ++i) {
    if (!numbers[i]) continue;
    const auto [same, first] = highest.emplace(numbers[i]->counts, i);
    if (!first && numbers[i]->CompareNumber(*numbers[same->second]) > 0) same->second = i;
  }
  const auto is_surpassed = [&](const NameNumber& number) {
    return number.CompareNumber(*numbers[highest.at(number.counts)]) < 0;
  };
  std::vector<size_t> left;
  for (size_t i = 0; i < numbers.size(); ++i)
    if (!numbers[i] || !is_surpassed(*numbers[i])) left.push_back(i);
  return left;
}

std::string DoubtOf(std::span<const DatedName> candidates, size_t taken) {
  const DatedName& mine = candidates[taken];
  const DatedName& latest = *std::ranges::max_element(candidates, {}, &DatedName::time);
  if (latest.time <= mine.time) return "";
  return fmt::format("{} ({}) has the highest number, but {} was finished later ({})", mine.name,
                     TimeStampText(mine.time), latest.name, TimeStampText(latest.time));
}

}  // namespace

std::string ChoiceText(const Choice& choice) {
  const std::string_view why = choice.by == "number"    ? "the highest number"
                               : choice.by == "time"    ? "the newest"
                               : choice.by == "tracker" ? "the one that a file names,"
                               : choice.by == "option"  ? "the one asked for,"
                                                        : "the first";
  return fmt::format("took {}, {} of {}", choice.path, why, choice.of);
}

void Said::AddSaid(const Said& more) {
  warnings.insert(warnings.end(), more.warnings.begin(), more.warnings.end());
  choices.insert(choices.end(), more.choices.begin(), more.choices.end());
}

std::strong_ordering NameNumber::CompareNumber(const NameNumber& other) const {
  if (digits.size() != other.digits.size()) return digits.size() <=> other.digits.size();
  return digits.compare(other.digits) <=> 0;
}

std::optional<NameNumber> NumberOfName(std::string_view name) {
  const std::string lower = Lower(name);
  for (const Word& word : kWords)
    if (std::optional<NameNumber> number = NumberAfter(lower, word)) return number;
  return NumberAtEnd(lower);
}

std::optional<Newest> FindNewest(std::span<const DatedName> candidates) {
  const std::vector<size_t> left = Unsurpassed(candidates);
  if (left.empty()) return std::nullopt;
  const auto time_of = [&](size_t i) { return candidates[i].time; };
  const size_t taken = *std::ranges::max_element(left, {}, time_of);
  if (candidates.size() == 1) return Newest{taken, "", ""};
  if (left.size() == 1) return Newest{taken, "number", DoubtOf(candidates, taken)};
  if (std::ranges::count(left, time_of(taken), time_of) > 1) return std::nullopt;
  return Newest{taken, "time", ""};
}

std::string FirstNames(std::span<const std::string> names, size_t shown) {
  const size_t count = std::min(shown, names.size());
  std::string text = fmt::format("{}", fmt::join(names.first(count), ", "));
  if (names.size() > count) text += fmt::format(" and {} more", names.size() - count);
  return text;
}

}  // namespace nxdkit
