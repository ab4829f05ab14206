// PRIVATE to tests. A page with commands to type: its console blocks, with the output of each, and
// the files that it shows.
#pragma once

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace nxdkit::test {

// A block between two lines of ```.
struct PageBlock {
  std::string kind;  // "console", "bash"
  std::vector<std::string> lines;
};

struct Typed {
  std::string command;  // without "$ "; several lines where they end with a backslash
  std::string output;
};

struct TypedWalk {
  std::vector<Typed> typed;
  std::map<std::string, std::string> files;  // by name: bash blocks whose second line is "# NAME: "
};

// A section of the page, from "## NAME" to the next one; "" if there is none.
inline std::string SectionOf(const std::string& page, const std::string& name) {
  const size_t begin = page.find("\n## " + name);
  if (begin == std::string::npos) return "";
  return page.substr(begin + 1, page.find("\n## ", begin + 1) - begin);
}

inline std::vector<PageBlock> BlocksOf(const std::string& section) {
  std::vector<PageBlock> blocks;
  bool inside = false;
  std::istringstream lines(section);
  for (std::string line; std::getline(lines, line);) {
    const bool fence = line.starts_with("```");
    if (fence && !inside) blocks.push_back({line.substr(3), {}});
    if (fence) inside = !inside;
    if (!fence && inside) blocks.back().lines.push_back(line);
  }
  return blocks;
}

inline void AddTyped(const PageBlock& block, std::vector<Typed>& typed) {
  for (const std::string& line : block.lines) {
    if (line.starts_with("$ "))
      typed.push_back({line.substr(2), ""});
    else if (typed.empty())
      continue;
    else if (typed.back().command.ends_with("\\"))
      typed.back().command += "\n" + line;
    else
      typed.back().output += line + "\n";
  }
}

inline TypedWalk WalkOf(const std::string& section) {
  TypedWalk walk;
  for (const PageBlock& block : BlocksOf(section)) {
    if (block.kind == "console") AddTyped(block, walk.typed);
    if (block.kind != "bash" || block.lines.size() < 2) continue;
    const std::string name = block.lines[1].substr(2, block.lines[1].find(':') - 2);
    for (const std::string& line : block.lines) walk.files[name] += line + "\n";
  }
  return walk;
}

inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Without times, sizes of this machine and amounts of money, which vary.
inline std::string Steady(std::string text) {
  static const std::pair<std::regex, const char*> kVolatile[] = {
      {std::regex("[0-9.]+ (ms|s|min|h)\\b( [0-9]+ (s|min)\\b)?"), "TIME"},
      {std::regex("[0-9.]+ [kMG]?B/s, peak memory [0-9.]+ [kMG]B"), "RATE"},
      {std::regex("about [0-9.]+ MB of memory"), "MEMORY"},
      {std::regex("[0-9.]+ kB"), "SIZE"},
      {std::regex("cost [0-9.]+"), "COST"},
      {std::regex("MODULE_[0-9a-f]{20}[+][0-9a-f]{8}/work"), "FOLDER"},
      {std::regex("at most [0-9]+ at once in [0-9.]+ [kMGT]?B"), "at most N at once in SIZE"},
      // Several concurrent compilers end in any order.
      {std::regex(": compiled neuronxcc-[^ ]+ in"), ": compiled GRAPH in"},
  };
  for (const auto& [pattern, word] : kVolatile) text = std::regex_replace(text, pattern, word);
  return text;
}

}  // namespace nxdkit::test
