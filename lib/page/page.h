// One page for a browser in one file: it needs no other files, no network and no library of
// scripts, and its policy forbids all of them. Everything that draws a page uses this one, so that
// all pages have one style.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace nxdkit::page {

// The programs that a page may run. Each draws from the page's data when the page opens.
enum class Script : unsigned {
  kPlan = 1,     // data "plan": which parts of which files become the parts of which ranks
  kTreemap = 2,  // data "tree": names by size, and the ranks that hold a chosen one; needs kPlan
  kHeat = 4,     // data "heat": layers by modules
};

// The most bytes of data in a page that has to stay under 5 MB.
inline constexpr size_t kMostData = 4'800'000;
// The bytes that a JSON text takes in a page (Page::AddData).
size_t DataBytes(std::string_view json);

class Page {
 public:
  // The title is text; it is also the page's heading.
  explicit Page(std::string_view title);

  // HTML, made of the pieces in lib/page/html.h and chart.h; parts are in the order of the calls.
  void Add(std::string_view html) { body_ += html; }
  void Heading(std::string_view text);  // of a section

  // `json`: a document for the page's scripts, as text; the bytes need not be safe in HTML.
  void AddData(std::string_view id, std::string_view json);
  void Use(Script script) { scripts_ |= static_cast<unsigned>(script); }

  // The same bytes for the same calls. Its policy (Content-Security-Policy) allows the page's own
  // style and, by their SHA-256, its own scripts; nothing else is loaded or run.
  std::string Text() const;

 private:
  std::string title_;  // escaped
  std::string body_;
  std::string data_;
  unsigned scripts_ = 0;
};

}  // namespace nxdkit::page
