#include "lib/page/html.h"

#include <fmt/core.h>

#include <algorithm>

#include "lib/base/text.h"

namespace nxdkit::page {

std::string Escape(std::string_view text) {
  constexpr std::string_view kSpecial = "&<>\"'\n\t";
  constexpr std::string_view kTexts[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;", "\n", "\t"};
  std::string out;
  for (;;) {
    const size_t end = text.find_first_of(kSpecial);
    out += EscapeControl(text.substr(0, end));
    if (end == std::string_view::npos) return out;
    out += kTexts[kSpecial.find(text[end])];
    text.remove_prefix(end + 1);
  }
}

std::string NameHtml(std::string_view name) {
  std::string out;
  for (size_t at = 0; at < name.size();) {
    const size_t end = std::min(name.find_first_of("/.", at), name.size() - 1) + 1;
    out += (at == 0 ? "" : "<wbr>") + Escape(name.substr(at, end - at));
    at = end;
  }
  return out;
}

std::string Cards(const std::vector<Card>& cards) {
  std::string html;
  for (const Card& card : cards)
    html += fmt::format("<div class=\"card\"><span>{}</span><b>{}</b></div>\n", Escape(card.label),
                        Escape(card.value));
  return html.empty() ? "" : "<div class=\"cards\">\n" + html + "</div>\n";
}

std::string Table(const std::vector<std::string>& headings,
                  const std::vector<std::vector<std::string>>& html_rows) {
  std::vector<std::string> html_headings;
  for (const std::string& heading : headings) html_headings.push_back(Escape(heading));
  return TableOf(html_headings, html_rows);
}

std::string TableOf(const std::vector<std::string>& html_headings,
                    const std::vector<std::vector<std::string>>& html_rows) {
  if (html_rows.empty()) return "";
  std::string html;
  const bool labels = html_headings.empty() || html_headings.front().empty();
  if (!html_headings.empty()) {
    html += "<tr>";
    for (const std::string& heading : html_headings)
      html += heading.empty() ? "<td></td>" : "<th scope=\"col\">" + heading + "</th>";
    html += "</tr>\n";
  }
  for (const std::vector<std::string>& row : html_rows) {
    html += "<tr>";
    for (size_t i = 0; i < row.size(); ++i)
      html +=
          i == 0 && labels ? "<th scope=\"row\">" + row[i] + "</th>" : "<td>" + row[i] + "</td>";
    html += "</tr>\n";
  }
  return "<table class=\"data\">\n" + html + "</table>\n";
}

std::string Figure(std::string_view title, std::string_view help, std::string_view chart_html,
                   std::string_view legend_html) {
  if (chart_html.empty()) return "";
  return fmt::format(
      "<figure><figcaption><b>{}</b> <small>{}</small></figcaption>\n{}{}</figure>\n",
      Escape(title), Escape(help), chart_html, legend_html);
}

std::string Details(std::string_view summary, std::string_view html, bool open) {
  return fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", open ? " open" : "",
                     Escape(summary), html);
}

std::string Problems(const std::vector<std::string>& problems) {
  std::string items;
  for (const std::string& problem : problems) items += "<li>" + Escape(problem) + "</li>\n";
  return items.empty() ? "" : "<ul class=\"problems\">\n" + items + "</ul>\n";
}

}  // namespace nxdkit::page
