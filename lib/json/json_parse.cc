#include "lib/json/json_parse.h"

#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <unordered_map>
#include <vector>

#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/base/utf8.h"
#include "lib/system/broken_download.h"
#include "lib/system/file.h"

namespace nxdkit {
namespace {

// nlohmann's parser, after a scan for what it lacks: a limit on depth (its own SAX parser does not
// recurse, but the tree it builds is deep), Python's NaN words, rejection of NUL bytes and byte
// order marks, and an offset for every error.

Error JsonError(std::string_view text, size_t offset, std::string_view what) {
  offset = std::min(offset, text.size());
  const std::string_view before = text.substr(0, offset);
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return Corrupt("JSON line {} column {}: {}", line, offset - line_start + 1, what).at(offset);
}

std::string Near(std::string_view text, size_t offset) {
  if (offset >= text.size()) return "at the end of the text";
  return fmt::format("at '{}'", EscapeControl(text.substr(offset, 20)));
}

// Python's words that JSON does not have, each with a number of the same length, so that offsets
// stay. The zeros of the result that stand for a word are known by where they end.
struct NanWord {
  std::string_view word;
  std::string_view number;
  double value;
};
constexpr NanWord kNanWords[] = {
    {"NaN", "0e0", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "0e000000", std::numeric_limits<double>::infinity()},
    {"-Infinity", "-0e000000", -std::numeric_limits<double>::infinity()},
};

struct Scanned {
  std::string replaced;  // empty when nothing was
  std::vector<size_t> word_ends;
};

bool IsWordByte(char c) { return IsAlnum(c) || c == '_' || c == '.' || c == '+' || c == '-'; }

const NanWord* NanWordAt(std::string_view text, size_t offset) {
  if (offset > 0 && IsWordByte(text[offset - 1])) return nullptr;
  for (const NanWord& row : kNanWords) {
    const size_t end = offset + row.word.size();
    if (text.substr(offset, row.word.size()) == row.word &&
        (end == text.size() || !IsWordByte(text[end])))
      return &row;
  }
  return nullptr;
}

// Offset after the string that begins with the quote at `offset`.
size_t SkipString(std::string_view text, size_t offset) {
  for (++offset; offset < text.size() && text[offset] != '"'; ++offset)
    if (text[offset] == '\\') ++offset;
  return offset + 1;
}

// Does not know the grammar: the parser still refuses what this lets through.
Result<Scanned> Scan(std::string_view text, const JsonOptions& options) {
  if (text.substr(0, 3) == "\xef\xbb\xbf") return JsonError(text, 0, "byte order mark");
  if (const auto bad = ValidateUtf8(text)) return JsonError(text, *bad, "bytes are not UTF-8");
  Scanned scanned;
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '"') {
      i = SkipString(text, i) - 1;
    } else if (c == '\0') {  // the parser would take it for the end
      return JsonError(text, i, "NUL byte");
    } else if ((c == '[' || c == '{') && ++depth > options.max_depth) {
      return JsonError(text, i,
                       fmt::format("nesting is over the limit of {} levels", options.max_depth));
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (options.allow_nan && (c == 'N' || c == 'I' || c == '-')) {
      const NanWord* word = NanWordAt(text, i);
      if (word == nullptr) continue;
      if (scanned.replaced.empty()) scanned.replaced = text;
      scanned.replaced.replace(i, word->word.size(), word->number);
      i += word->word.size() - 1;
      scanned.word_ends.push_back(i + 1);
    }
  }
  return scanned;
}

// Walks the text, and tracks how far the parser has read.
class Cursor {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = const char&;

  Cursor(const char* at, const char** reached) : at_(at), reached_(reached) {}
  reference operator*() const { return *at_; }
  Cursor& operator++() {
    *reached_ = ++at_;
    return *this;
  }
  Cursor operator++(int) {
    const Cursor old = *this;
    ++*this;
    return old;
  }
  bool operator==(const Cursor& other) const { return at_ == other.at_; }
  bool operator!=(const Cursor& other) const { return at_ != other.at_; }

 private:
  const char* at_;
  const char** reached_;
};

// Builds the tree from the parser's events. Pointers to open containers stay valid: only the last
// element of a container is ever open, and the container does not grow meanwhile.
class Builder : public nlohmann::json_sax<Json> {
 public:
  // `text` is the original, for messages; `begin` the start of the text that is parsed.
  Builder(std::string_view text, const char* begin, const std::vector<size_t>& word_ends,
          const JsonOptions& options)
      : text_(text), begin_(begin), word_ends_(word_ends), options_(options), reached_(begin) {}

  const char** reached() { return &reached_; }
  std::optional<Error>& error() { return error_; }
  Json& root() { return root_; }

  bool null() override { return Add(nullptr); }
  bool boolean(bool value) override { return Add(value); }
  bool number_integer(number_integer_t value) override { return Add(value); }
  bool number_unsigned(number_unsigned_t value) override { return Add(value); }
  bool number_float(number_float_t value, const string_t& raw) override {
    return Add(IsReplacedWord() ? WordValue(raw) : value);
  }
  bool string(string_t& value) override { return Add(std::move(value)); }
  bool binary(binary_t&) override { return false; }  // not in JSON text

  bool start_object(std::size_t) override { return Open(Json::object()); }
  bool start_array(std::size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(string_t& name) override {
    Level& level = open_.back();
    // ordered_map is a vector of pairs; its own emplace() would compare with every earlier key.
    auto& pairs =
        static_cast<Json::object_t::Container&>(level.container->get_ref<Json::object_t&>());
    const auto [found, inserted] = level.keys.try_emplace(name, pairs.size());
    if (inserted) pairs.emplace_back(std::move(name), nullptr);
    level.slot = &pairs[found->second].second;
    if (inserted || options_.allow_duplicate_keys) return true;
    error_ = JsonError(text_, Reached() - 1,
                       fmt::format("key '{}' is there twice", EscapeControl(found->first)));
    return false;
  }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception& exception) override {
    const size_t offset = position > 0 ? position - 1 : 0;
    error_ = JsonError(text_, offset,
                       fmt::format("{}, {}", Reason(exception.what()), Near(text_, offset)));
    return false;
  }

 private:
  struct Level {
    Json* container;
    Json* slot = nullptr;  // of an object: the place of the next value
    std::unordered_map<std::string, size_t> keys;
  };

  size_t Reached() const { return static_cast<size_t>(reached_ - begin_); }

  // The lexer has read one byte past a number, except at the end of the text.
  bool IsReplacedWord() const {
    return std::ranges::binary_search(word_ends_, Reached()) ||
           (Reached() > 0 && std::ranges::binary_search(word_ends_, Reached() - 1));
  }
  static double WordValue(std::string_view raw) {
    for (const NanWord& row : kNanWords)
      if (row.number == raw) return row.value;
    return std::numeric_limits<double>::quiet_NaN();
  }

  // "[json.exception...] parse error at line 1, column 2: REASON; last read: '...'" or
  // "[json.exception...] number overflow parsing '...'" -> REASON, "number overflow"
  static std::string_view Reason(std::string_view what) {
    what.remove_prefix(std::min(what.size(), what.find("] ") + 2));
    if (what.substr(0, 11) == "parse error") what.remove_prefix(what.find(": ") + 2);
    return what.substr(0, std::min(what.find("; last read"), what.find(" parsing '")));
  }

  // The place where the value was added.
  Json* Add(Json value) {
    if (open_.empty()) return &(root_ = std::move(value));
    Level& level = open_.back();
    if (level.slot != nullptr) return &(*level.slot = std::move(value));
    level.container->push_back(std::move(value));
    return &level.container->back();
  }
  bool Open(Json container) {
    open_.push_back({Add(std::move(container)), nullptr, {}});
    return true;
  }
  bool Close() {
    open_.pop_back();
    return true;
  }

  std::string_view text_;
  const char* begin_;
  const std::vector<size_t>& word_ends_;
  const JsonOptions& options_;
  const char* reached_;
  Json root_;
  std::vector<Level> open_;
  std::optional<Error> error_;
};

}  // namespace

Result<Json> ParseJson(std::string_view text, const JsonOptions& options) {
  NXDKIT_ASSIGN(const Scanned scanned, Scan(text, options));
  const std::string_view json = scanned.word_ends.empty() ? text : scanned.replaced;
  Builder builder(text, json.data(), scanned.word_ends, options);
  const Cursor begin(json.data(), builder.reached());
  const Cursor end(json.data() + json.size(), builder.reached());
  if (Json::sax_parse(begin, end, &builder)) return std::move(builder.root());
  if (builder.error()) return *std::move(builder.error());
  return Error(Errc::kInternal, "the JSON parser stopped without a reason");
}

Result<Json> ReadJsonFile(const std::string& path, uint64_t max_bytes, const JsonOptions& options) {
  NXDKIT_ASSIGN(const std::string text, ReadSmallFile(path, max_bytes));
  return OrWrongAnswer(ParseJson(text, options).in(path), path);
}

}  // namespace nxdkit
