#include "trainer/text/pre_tokenizer.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/errors.h"
#include "trainer/text/normalizer.h"
#include "trainer/text/regex_syntax.h"

namespace nxdkit::trainer {
namespace {

constexpr std::string_view kPreTokenizerKey = "pre_tokenizer";
constexpr int kMaxDepth = 8;

// GPT-2's pattern, by which ByteLevel splits if use_regex is set.
constexpr std::string_view kByteLevelPattern =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+";

struct BehaviorName {
  std::string_view name;
  SplitBehavior behavior;
};
constexpr BehaviorName kBehaviors[] = {
    {"Removed", SplitBehavior::kRemoved},
    {"Isolated", SplitBehavior::kIsolated},
    {"MergedWithPrevious", SplitBehavior::kMergedWithPrevious},
    {"MergedWithNext", SplitBehavior::kMergedWithNext},
    {"Contiguous", SplitBehavior::kContiguous},
};

Error CannotSplit(std::string_view what) {
  return Error(Errc::kUnsupported, std::string(what)).member(kPreTokenizerKey);
}

Result<SplitBehavior> BehaviorOf(const Json& json) {
  NXDKIT_ASSIGN(const std::string name, JsonString(json, "behavior"));
  for (const BehaviorName& row : kBehaviors)
    if (row.name == name) return row.behavior;
  return CannotSplit(fmt::format("Split with behavior '{}' is not known", name));
}

// {"Regex": "..."} or {"String": "..."}
Result<Regex> PatternOf(const Json& json) {
  const Json* pattern = JsonFind(json, "pattern");
  if (pattern == nullptr) return Corrupt("Split without a pattern").member(kPreTokenizerKey);
  if (JsonFind(*pattern, "String") != nullptr) {
    NXDKIT_ASSIGN(const std::string text, JsonString(*pattern, "String"));
    return Regex::Compile(EscapeRegex(text));
  }
  NXDKIT_ASSIGN(const std::string text, JsonString(*pattern, "Regex"));
  return Regex::Compile(text).member(kPreTokenizerKey);
}

struct Piece {
  Span span;
  bool is_match;
};

std::vector<Piece> PiecesOf(const std::vector<Span>& matches, size_t text_bytes, bool invert) {
  std::vector<Piece> pieces;
  size_t done = 0;
  for (const Span& match : matches) {
    if (match.begin > done) pieces.push_back({{done, match.begin}, invert});
    pieces.push_back({match, !invert});
    done = match.end;
  }
  if (done < text_bytes) pieces.push_back({{done, text_bytes}, invert});
  return pieces;
}

bool Joins(SplitBehavior behavior, bool is_match, bool before) {
  if (behavior == SplitBehavior::kContiguous) return is_match == before;
  const bool merges =
      behavior == SplitBehavior::kMergedWithPrevious || behavior == SplitBehavior::kMergedWithNext;
  return merges && is_match && !before;
}

std::string_view WithSpace(std::string_view text, std::deque<std::string>* owned) {
  if (text.starts_with(' ')) return text;
  return owned->emplace_back(" ").append(text);
}

}  // namespace

std::vector<Span> CutAt(const std::vector<Span>& matches, size_t text_bytes, SplitBehavior behavior,
                        bool invert) {
  std::vector<Piece> pieces = PiecesOf(matches, text_bytes, invert);
  // Merging with the next one is merging with the previous one, seen from the end.
  const bool backwards = behavior == SplitBehavior::kMergedWithNext;
  if (backwards) std::ranges::reverse(pieces);
  std::vector<Span> spans;
  bool before = false;
  for (const auto& [span, is_match] : pieces) {
    const bool joins = !spans.empty() && Joins(behavior, is_match, before);
    before = is_match;
    if (behavior == SplitBehavior::kRemoved && is_match) continue;
    if (!joins)
      spans.push_back(span);
    else if (backwards)
      spans.back().begin = span.begin;
    else
      spans.back().end = span.end;
  }
  if (backwards) std::ranges::reverse(spans);
  std::erase_if(spans, [](const Span& span) { return span.begin == span.end; });
  return spans;
}

Result<PreTokenizer> PreTokenizer::FromJson(const Json* json) {
  PreTokenizer made;
  if (json != nullptr) NXDKIT_TRY(made.Add(*json, 0));
  return made;
}

Status PreTokenizer::Add(const Json& json, int depth) {
  if (depth > kMaxDepth)
    return CannotSplit(fmt::format("Sequences nest deeper than {}", kMaxDepth));
  if (!json.is_object())
    return CannotSplit(fmt::format("found {}, expected an object", JsonTypeText(json)));
  NXDKIT_ASSIGN(const std::string type, JsonString(json, "type"));
  if (byte_level_ && type != "Sequence")
    return CannotSplit(type == "ByteLevel" ? "ByteLevel twice"
                                           : fmt::format("{} after ByteLevel", type));
  if (type == "Split") return AddSplit(json);
  if (type == "Digits") return AddDigits(json);
  if (type == "Metaspace") return AddMetaspace(json);
  if (type == "ByteLevel") return AddByteLevel(json);
  if (type != "Sequence")
    return CannotSplit(fmt::format(
        "type '{}' is not known, expected Split, Digits, Metaspace, ByteLevel or Sequence", type));
  const Json* list = JsonFind(json, "pretokenizers");
  if (list == nullptr || !list->is_array())
    return Corrupt("Sequence without an array 'pretokenizers'").member(kPreTokenizerKey);
  for (const Json& step : *list) NXDKIT_TRY(Add(step, depth + 1));
  return OkStatus();
}

Status PreTokenizer::AddSplit(const Json& json) {
  NXDKIT_ASSIGN(const SplitBehavior behavior, BehaviorOf(json));
  NXDKIT_ASSIGN(const bool invert, JsonBool(json, "invert"));
  NXDKIT_ASSIGN(Regex regex, PatternOf(json));
  steps_.push_back({.regex = std::move(regex), .behavior = behavior, .invert = invert});
  return OkStatus();
}

// Characters that are numeric in Rust: Unicode's Nd, Nl and No.
Status PreTokenizer::AddDigits(const Json& json) {
  NXDKIT_ASSIGN(const bool individual, JsonBool(json, "individual_digits"));
  NXDKIT_ASSIGN(Regex regex, Regex::Compile("\\p{N}"));
  steps_.push_back(
      {.regex = std::move(regex),
       .behavior = individual ? SplitBehavior::kIsolated : SplitBehavior::kContiguous});
  return OkStatus();
}

// The values that the library accepts: a scheme, or in old files nothing, which means "always".
Status PreTokenizer::AddMetaspace(const Json& json) {
  Step step;
  NXDKIT_ASSIGN(step.space, JsonString(json, "replacement"));
  std::string scheme = "always";
  if (JsonFind(json, "prepend_scheme") != nullptr)
    NXDKIT_TRY(JsonString(json, "prepend_scheme").To(scheme));
  if (scheme != "always" && scheme != "first" && scheme != "never")
    return CannotSplit(fmt::format("Metaspace with prepend_scheme '{}' is not known", scheme));
  const Json* prefix = JsonFind(json, "add_prefix_space");
  if (prefix != nullptr && *prefix == false && scheme != "never")
    return CannotSplit("Metaspace whose add_prefix_space and prepend_scheme contradict each other");
  step.scheme = scheme == "always"  ? Scheme::kAlways
                : scheme == "first" ? Scheme::kFirst
                                    : Scheme::kNever;
  const bool removed = std::ranges::any_of(
      steps_, [](const Step& one) { return one.behavior == SplitBehavior::kRemoved; });
  if (step.scheme == Scheme::kFirst && removed)
    return CannotSplit("Metaspace with prepend_scheme 'first' after a Split that removes text");
  bool split = true;
  if (JsonFind(json, "split") != nullptr) NXDKIT_TRY(JsonBool(json, "split").To(split));
  if (split) {
    NXDKIT_ASSIGN(step.regex, Regex::Compile(EscapeRegex(step.space)));
    step.behavior = SplitBehavior::kMergedWithNext;
  }
  steps_.push_back(std::move(step));
  return OkStatus();
}

Status PreTokenizer::AddByteLevel(const Json& json) {
  byte_level_ = true;
  NXDKIT_ASSIGN(const bool prefix_space, JsonBool(json, "add_prefix_space"));
  bool use_regex = true;  // older files lack the key
  if (JsonFind(json, "use_regex") != nullptr) NXDKIT_TRY(JsonBool(json, "use_regex").To(use_regex));
  if (!use_regex) {
    last_prefix_space_ = prefix_space;
    return OkStatus();
  }
  NXDKIT_ASSIGN(Regex regex, Regex::Compile(kByteLevelPattern));
  steps_.push_back({.regex = std::move(regex), .prefix_space = prefix_space});
  return OkStatus();
}

bool PreTokenizer::LooksAtBeginning() const {
  return std::ranges::any_of(steps_,
                             [](const Step& step) { return step.scheme == Scheme::kFirst; });
}

// A part in the form in which the step's pattern sees it.
std::string_view PreTokenizer::Prepared(const Step& step, std::string_view part, bool first,
                                        Words* words) {
  if (step.prefix_space) return WithSpace(part, &words->owned);
  if (step.space.empty()) return part;
  std::string& made = words->owned.emplace_back(ReplacedAll(part, " ", step.space));
  const bool asked = step.scheme == Scheme::kAlways || (step.scheme == Scheme::kFirst && first);
  if (asked && !made.starts_with(step.space)) made.insert(0, step.space);
  return made;
}

Status PreTokenizer::Split(std::string_view text, bool first, Words* words) const {
  if (text.empty()) return OkStatus();
  std::vector<std::string_view> parts{text};
  std::vector<std::string_view> cut;
  std::vector<Span> matches;
  for (const Step& step : steps_) {
    cut.clear();
    for (std::string_view part : parts) {
      part = Prepared(step, part, first && cut.empty(), words);
      if (!step.regex) {
        cut.push_back(part);
        continue;
      }
      NXDKIT_TRY(step.regex->FindAll(part, &matches));
      for (const Span& span : CutAt(matches, part.size(), step.behavior, step.invert))
        cut.push_back(part.substr(span.begin, span.end - span.begin));
    }
    parts.swap(cut);
  }
  for (const std::string_view part : parts)
    words->list.push_back(last_prefix_space_ ? WithSpace(part, &words->owned) : part);
  return OkStatus();
}

}  // namespace nxdkit::trainer
