#include "trainer/text/regex.h"

#include "lib/base/errors.h"
#include "trainer/base/characters.h"
#include "trainer/text/regex_syntax.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

namespace nxdkit::trainer {
namespace {

constexpr size_t kMaxPatternBytes = 64 * 1024;
constexpr uint32_t kParenthesesLimit = 100;
constexpr uint32_t kMatchLimit = 50'000'000;
constexpr uint32_t kDepthLimit = 1'000'000;
constexpr uint32_t kHeapLimitKiB = 256 * 1024;

template <auto kFree>
struct Free {
  template <typename T>
  void operator()(T* object) const {
    kFree(object);
  }
};
using Code = std::unique_ptr<pcre2_code, Free<pcre2_code_free>>;
using CompileContext = std::unique_ptr<pcre2_compile_context, Free<pcre2_compile_context_free>>;
using MatchContext = std::unique_ptr<pcre2_match_context, Free<pcre2_match_context_free>>;
using MatchData = std::unique_ptr<pcre2_match_data, Free<pcre2_match_data_free>>;

std::string Reason(int code) {
  char text[256];
  pcre2_get_error_message(code, reinterpret_cast<PCRE2_UCHAR*>(text), sizeof text);
  return text;
}

PCRE2_SPTR Bytes(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

struct Regex::Compiled {
  std::string pattern;
  Code code;
  MatchContext limits;

  // One search from `from`; the result of pcre2_match.
  int Search(std::string_view text, size_t from, pcre2_match_data* data) const {
    const int found = pcre2_match(code.get(), Bytes(text), text.size(), from, PCRE2_NO_UTF_CHECK,
                                  data, limits.get());
    if (found != PCRE2_ERROR_JIT_STACKLIMIT) return found;
    return pcre2_match(code.get(), Bytes(text), text.size(), from,
                       PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, limits.get());
  }
};

Result<Regex> Regex::Compile(std::string_view pattern) {
  if (pattern.size() > kMaxPatternBytes)
    return Unsupported("regular expression of {} bytes, the limit is {}", pattern.size(),
                       kMaxPatternBytes);
  NXDKIT_ASSIGN(const std::string translated, TranslateOniguruma(pattern));
  const CompileContext context(pcre2_compile_context_create(nullptr));
  const auto compiled = std::make_shared<Compiled>();
  compiled->limits.reset(pcre2_match_context_create(nullptr));
  if (!context || !compiled->limits) return OverLimit("no memory for PCRE2");
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_set_parens_nest_limit(context.get(), kParenthesesLimit);
  pcre2_set_match_limit(compiled->limits.get(), kMatchLimit);
  pcre2_set_depth_limit(compiled->limits.get(), kDepthLimit);
  pcre2_set_heap_limit(compiled->limits.get(), kHeapLimitKiB);

  int reason = 0;
  size_t offset = 0;
  compiled->pattern = pattern;
  compiled->code.reset(pcre2_compile(Bytes(translated), translated.size(),
                                     PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &reason,
                                     &offset, context.get()));
  if (!compiled->code)
    return Unsupported("regular expression '{}': {} near '{}'", pattern, Reason(reason),
                       translated.substr(offset, 20));
  // Without a JIT the interpreter runs it: slower, with the same results.
  static_cast<void>(pcre2_jit_compile(compiled->code.get(), PCRE2_JIT_COMPLETE));
  return Regex(compiled);
}

Status Regex::FindAll(std::string_view text, std::vector<Span>* matches) const {
  matches->clear();
  const MatchData data(pcre2_match_data_create(1, nullptr));
  if (!data) return OverLimit("no memory for a match");
  const size_t* span = pcre2_get_ovector_pointer(data.get());
  size_t from = 0;
  while (from <= text.size()) {
    const int found = compiled_->Search(text, from, data.get());
    if (found == PCRE2_ERROR_NOMATCH) break;
    if (found < 0)
      return OverLimit("regular expression '{}' on {} bytes of text: {}", compiled_->pattern,
                       text.size(), Reason(found));
    const Span match{span[0], span[1]};
    const bool empty = match.begin == match.end;
    if (empty && !matches->empty() && matches->back().end == match.end) {
      from += from < text.size() ? CharBytes(text, from) : 1;
      continue;
    }
    from = match.end;
    matches->push_back(match);
  }
  return OkStatus();
}

}  // namespace nxdkit::trainer
