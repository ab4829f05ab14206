#include "lib/page/page.h"

#include <fmt/core.h>

#include <algorithm>
#include <span>
#include <vector>

#include "lib/hash/base64.h"
#include "lib/hash/digest.h"
#include "lib/page/assets.h"
#include "lib/page/html.h"

namespace nxdkit::page {
namespace {

constexpr std::string_view kLess = "\\u003c";  // for "<" in data

struct Program {
  Script script;
  std::string_view text;
};

std::vector<std::string_view> ProgramsOf(unsigned scripts) {
  const Program programs[] = {
      {Script::kPlan, kPlanJs}, {Script::kTreemap, kTreemapJs}, {Script::kHeat, kHeatJs}};
  std::vector<std::string_view> texts;
  for (const Program& program : programs)
    if (scripts & static_cast<unsigned>(program.script)) texts.push_back(program.text);
  if (!texts.empty()) texts.insert(texts.begin(), kBaseJs);
  return texts;
}

std::string HashSource(std::string_view text) {
  Sha256 hasher;
  hasher.Update(std::as_bytes(std::span(text)));
  const Sha256Bytes digest = hasher.Finish();
  const std::string_view bytes(reinterpret_cast<const char*>(digest.data()), digest.size());
  return "'sha256-" + Base64Text(bytes) + "'";
}

std::string Policy(const std::vector<std::string_view>& programs) {
  std::string policy = "default-src 'none'; style-src 'unsafe-inline'";
  if (!programs.empty()) policy += "; script-src";
  for (const std::string_view program : programs) policy += " " + HashSource(program);
  return policy + "; base-uri 'none'; form-action 'none'";
}

}  // namespace

size_t DataBytes(std::string_view json) {
  return json.size() + (kLess.size() - 1) * static_cast<size_t>(std::ranges::count(json, '<'));
}

Page::Page(std::string_view title) : title_(Escape(title)) {}

void Page::Heading(std::string_view text) { body_ += "<h2>" + Escape(text) + "</h2>\n"; }

void Page::AddData(std::string_view id, std::string_view json) {
  data_ += fmt::format("<script type=\"application/json\" id=\"{}\">", id);
  // No "</script>" and no "<!--" can occur without this byte, which JSON has in strings only.
  for (const char c : json) c == '<' ? data_ += kLess : data_ += c;
  data_ += "</script>\n";
}

std::string Page::Text() const {
  const std::vector<std::string_view> programs = ProgramsOf(scripts_);
  std::string text = fmt::format(
      "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"{}\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>\n{}</style></head>\n<body>\n<main>\n<h1>{}</h1>\n",
      Policy(programs), title_, kStyleCss, title_);
  text += body_;
  text += "</main>\n";
  text += data_;
  for (const std::string_view program : programs)
    text.append("<script>").append(program).append("</script>\n");
  return text + "</body></html>\n";
}

}  // namespace nxdkit::page
