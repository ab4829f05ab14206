#include "trainer/reward/rules.h"

#include "trainer/reward/grade.h"
#include "trainer/reward/text.h"

namespace nxdkit::trainer {
namespace {

size_t SkipSpace(std::string_view text, size_t at) {
  while (const size_t bytes = SpaceBytes(text, at)) at += bytes;
  return at;
}

std::string CloseTags(std::string_view text) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const size_t after = SkipSpace(text, at);
    const char c = after < text.size() ? text[after] : '\0';
    if (c == '<' || c == '>' || c == '/') {
      out += c;
      at = SkipSpace(text, after + 1);
      continue;
    }
    const size_t end = after > at ? after : at + 1;
    out += text.substr(at, end - at);
    at = end;
  }
  return out;
}

// Whether the words occur in this order, the first at the beginning.
template <size_t N>
bool OccurInOrder(std::string_view text, const std::string_view (&words)[N]) {
  if (!text.starts_with(words[0])) return false;
  size_t at = 0;
  for (const std::string_view word : words) {
    at = text.find(word, at);
    if (at == std::string_view::npos) return false;
    at += word.size();
  }
  return true;
}

bool HasR1vFormat(std::string_view text) {
  if (!text.starts_with(kThink) || !text.ends_with(kAnswerEnd)) return false;
  const size_t last = text.size() - kAnswerEnd.size();
  for (size_t at = text.find(kThinkEnd, kThink.size()); at != std::string_view::npos;
       at = text.find(kThinkEnd, at)) {
    at = SkipSpace(text, at + kThinkEnd.size());
    if (text.substr(at).starts_with(kAnswer)) return at + kAnswer.size() <= last;
  }
  return false;
}

std::string_view R1vAnswer(std::string_view text) {
  for (size_t at = text.find(kAnswer); at != std::string_view::npos; at = text.find(kAnswer, at)) {
    at += kAnswer.size();
    const size_t end = text.find(kAnswerEnd, at);
    if (end == std::string_view::npos) break;
    const size_t line = text.find('\n', at);
    if (end < line) return Strip(text.substr(at, end - at));
    at = line;  // no answer begins and ends before this line
  }
  return Strip(text);
}

// Replaced in this order, then dropped in this order.
constexpr Replacement kDapo[] = {{"an ", ""},          {"a ", ""},
                                 {".$", "$"},          {"\\$", ""},
                                 {"\\ ", ""},          {" ", ""},
                                 {"mbox", "text"},     {",\\text{and}", ","},
                                 {"\\text{and}", ","}, {"\\text{m}", "\\text{}"}};
constexpr std::string_view kDapoDropped[] = {
    "square",     "ways",       "integers",  "dollars",      "mph",
    "inches",     "hours",      "km",        "units",        "\\ldots",
    "sue",        "points",     "feet",      "minutes",      "digits",
    "cents",      "degrees",    "cm",        "gm",           "pounds",
    "meters",     "meals",      "edges",     "students",     "childrentickets",
    "multiples",  "\\text{s}",  "\\text{.}", "\\text{\ns}",  "\\text{}^2",
    "\\text{}^3", "\\text{\n}", "\\text{}",  "\\mathrm{th}", "^\\circ",
    "^{\\circ}",  "\\;",        ",\\!",      "{,}",          "\"",
    "\\dots"};

// Each line with at least two dollars becomes the text between the first two, with the dollars.
std::string KeepMathSpan(std::string_view text) {
  std::string out;
  for (const std::string_view line : Split(text, '\n')) {
    if (line.data() != text.data()) out += '\n';
    const size_t open = line.find('$');
    const size_t close = open == std::string_view::npos ? open : line.find('$', open + 1);
    out += close == std::string_view::npos ? line : line.substr(open, close + 1 - open);
  }
  return out;
}

// Unwraps `open` ... "}" on one line, up to the first "}", or with `longest` to the last of the
// line.
std::string Unwrap(std::string_view text, std::string_view open, bool longest) {
  return RewriteEach(text, open, [&](std::string_view rest, std::string* out) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    const size_t close = longest ? line.rfind('}') : line.find('}');
    const bool closes = close != std::string_view::npos;
    out->append(closes ? line.substr(0, close) : open);
    return closes ? close + 1 : 0;
  });
}

// "frac12" -> "frac{1}{2}", "sqrt3" -> "sqrt{3}": `count` characters after the word, the first is
// not "{", the others are not line feeds.
std::string BraceAfter(std::string_view text, std::string_view word, int count) {
  return RewriteEach(text, word, [&](std::string_view rest, std::string* out) {
    *out += word;
    std::string braced;
    size_t taken = 0;
    for (int i = 0; i < count; ++i) {
      if (taken == rest.size() || rest[taken] == (i == 0 ? '{' : '\n')) return size_t{0};
      const size_t bytes = CharBytes(rest, taken);
      braced.append("{").append(rest.substr(taken, bytes)).append("}");
      taken += bytes;
    }
    *out += braced;
    return taken;
  });
}

// The last `count` characters.
std::string_view Tail(std::string_view text, size_t count) {
  size_t at = text.size();
  for (size_t i = 0; i < count && at > 0; ++i) at = CharBegin(text, at - 1);
  return text.substr(at);
}

bool StartsWithoutCase(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text.substr(0, lower.size()), lower, {},
                            [](char c) { return c | 0x20; });
}

// The rest of the line after "Answer", space, ":", space; at least one character. Space may span
// lines; if nothing follows it, its last character that is not a line feed counts. `end` is set to
// the end.
std::string_view AnswerAt(std::string_view text, size_t at, size_t* end) {
  constexpr std::string_view kWord = "answer";
  if (!StartsWithoutCase(text.substr(at), kWord)) return {};
  at = SkipSpace(text, at + kWord.size());
  if (at >= text.size() || text[at] != ':') return {};
  const size_t begin = at + 1;
  at = SkipSpace(text, begin);
  if (at == text.size()) {
    while (at > begin && text[at - 1] == '\n') --at;
    if (at == begin) return {};
    --at;
  }
  *end = std::min(text.find('\n', at), text.size());
  return text.substr(at, *end - at);
}

std::string_view LastAnswer(std::string_view text) {
  std::string_view last = "[INVALID]";
  for (size_t at = 0; at < text.size();) {
    size_t end = 0;
    const std::string_view found = AnswerAt(text, at, &end);
    if (found.empty()) {
      ++at;
      continue;
    }
    last = found;
    at = end;
  }
  return last;
}

}  // namespace

std::string ExtractBoxed(std::string_view response) {
  constexpr std::string_view kOpen = "\\boxed{";
  const size_t box = response.rfind(kOpen);
  if (box == std::string_view::npos) return "None";
  const std::string_view content = response.substr(box + kOpen.size());
  size_t depth = 0;
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] == '{') ++depth;
    if (content[i] != '}') continue;
    if (depth == 0) return std::string(Strip(content.substr(0, i)));
    --depth;
  }
  return "None";
}

RuleScore ScoreMath(std::string_view response, std::string_view truth) {
  constexpr std::string_view kFormat[] = {kThink, kThinkEnd, "\\boxed{", "}"};
  const std::string text = CloseTags(response);
  return {.accuracy = GradeAnswer(ExtractBoxed(text), truth) ? 1.0 : 0.0,
          .format = OccurInOrder(text, kFormat) ? 1.0 : 0.0};
}

RuleScore ScoreR1v(std::string_view response, std::string_view truth) {
  return {.accuracy = GradeAnswer(R1vAnswer(response), Strip(truth)) ? 1.0 : 0.0,
          .format = HasR1vFormat(response) ? 1.0 : 0.0};
}

std::string NormalizeDapo(std::string_view answer) {
  const size_t equals = answer.rfind('=');
  if (equals != std::string_view::npos) answer.remove_prefix(equals + 1);
  std::string text = ReplaceEach(std::string(answer), kDapo);
  for (const std::string_view word : kDapoDropped) text = ReplaceAll(text, word, "");
  text = KeepMathSpan(text);
  for (const std::string_view open : {"\\text{", "\\textbf{", "\\overline{"})
    text = Unwrap(text, open, false);
  text = Unwrap(text, "\\boxed{", true);
  text = ReplaceAll(BraceAfter(BraceAfter(text, "frac", 2), "sqrt", 1), "$", "");
  const std::string plain = ReplaceAll(text, ",", "");
  if (!plain.empty() && plain.find_first_not_of("0123456789") == std::string::npos) text = plain;
  return std::string(Strip(text));
}

double DapoAccuracy(std::string_view response, std::string_view truth) {
  constexpr size_t kTailChars = 300;
  return NormalizeDapo(LastAnswer(Tail(response, kTailChars))) == NormalizeDapo(truth) ? 1 : -1;
}

double OverlongPenalty(const Overlong& overlong, int64_t tokens) {
  const int64_t expected = overlong.max_tokens - overlong.buffer;
  if (tokens <= expected) return 0;
  if (tokens > overlong.max_tokens) return -1;
  return static_cast<double>(expected - tokens) / static_cast<double>(overlong.buffer);
}

}  // namespace nxdkit::trainer
