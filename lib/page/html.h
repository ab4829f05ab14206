// The pieces of HTML that the pages are made of. Arguments named `html` are HTML, all others are
// text and are escaped here.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nxdkit::page {

// Escapes & < > " ' and control characters, so that text is nothing but text.
std::string Escape(std::string_view text);

// A whole name, escaped, which may wrap after "/" and "." only.
std::string NameHtml(std::string_view name);

// A number with its label, for the top of a page.
struct Card {
  std::string label;
  std::string value;
};
std::string Cards(const std::vector<Card>& cards);  // "" for none

// A table; cells are HTML, and so are the headings of TableOf. Where no heading is above
// them, the first cells are the headings of their rows. "" without rows.
std::string Table(const std::vector<std::string>& headings,
                  const std::vector<std::vector<std::string>>& html_rows);
std::string TableOf(const std::vector<std::string>& html_headings,
                    const std::vector<std::vector<std::string>>& html_rows);

// A chart with its title, a line about it, and its legend; "" without a chart.
std::string Figure(std::string_view title, std::string_view help, std::string_view chart_html,
                   std::string_view legend_html);

// A part that opens on a click or a key.
std::string Details(std::string_view summary, std::string_view html, bool open = false);

// Warnings, for the top of a page; "" for none.
std::string Problems(const std::vector<std::string>& problems);

}  // namespace nxdkit::page
