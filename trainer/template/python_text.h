// Python's notation of strings, and Python's methods of strings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "trainer/base/characters.h"
#include "trainer/template/value.h"

namespace nxdkit::trainer::jinja {

// repr(text): 'it', "it's", '\n', '\u200b'.
void AppendPythonRepr(std::string_view text, std::string* out);

// The characters of a text, each as its bytes: for (std::string_view point : Points(text)).
class Points {
 public:
  struct End {};
  class Iterator {
   public:
    explicit Iterator(std::string_view text) : text_(text) {}
    std::string_view operator*() const { return text_.substr(0, CharBytes(text_, 0)); }
    Iterator& operator++() {
      text_.remove_prefix(CharBytes(text_, 0));
      return *this;
    }
    bool operator!=(End) const { return !text_.empty(); }

   private:
    std::string_view text_;  // the remaining text
  };

  explicit Points(std::string_view text) : text_(text) {}
  Iterator begin() const { return Iterator(text_); }
  End end() const { return {}; }

 private:
  std::string_view text_;
};

// str.find(), in bytes, from `from` on; npos if it does not occur. Linear in the text.
size_t FindText(std::string_view text, std::string_view wanted, size_t from = 0);
std::string_view StripSpace(std::string_view text, bool left, bool right);
// str.strip(); `chars` are removed, nullopt for white space. kLimit for very many.
Result<std::string> Strip(std::string_view text, const std::optional<std::string>& chars, bool left,
                          bool right);
// str.replace(); `most` < 0 is all.
Result<std::string> Replace(std::string_view text, std::string_view from, std::string_view to,
                            int64_t most, Budget& budget);
std::string Capitalize(std::string_view text);

}  // namespace nxdkit::trainer::jinja
