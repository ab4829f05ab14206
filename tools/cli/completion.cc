#include "tools/cli/completion.h"

#include <fmt/format.h>

#include <algorithm>

namespace nxdkit::tool {
namespace {

std::string FunctionName(const ToolInfo& info) {
  std::string name = "_" + info.name;
  std::ranges::replace(name, '-', '_');
  return name;
}

// `text` with `escape` before every character of `special`.
std::string Escaped(std::string_view text, std::string_view special, std::string_view escape) {
  std::string out;
  for (const char c : text) {
    if (special.find(c) != std::string_view::npos) out += escape;
    out += c;
  }
  return out;
}

// --- bash

std::string BashValueCase(const OptionFacts& row) {
  const std::string pattern = fmt::format("{}", fmt::join(row.AllNames(), "|"));
  if (!row.choices.empty())
    return fmt::format(
        "    {}) mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$word\"); return ;;\n", pattern,
        fmt::join(row.choices, " "));
  if (row.completes == Completes::kNothing) return fmt::format("    {}) return ;;\n", pattern);
  return fmt::format("    {}) _nxdkit_paths {}; return ;;\n", pattern,
                     row.completes == Completes::kPath ? "-f" : "-d");
}

std::string BashScript(const ToolInfo& info, const std::vector<OptionFacts>& options) {
  std::string cases;
  std::vector<std::string> names;
  for (const OptionFacts& row : options) {
    if (row.positional) continue;
    for (std::string& name : row.AllNames()) names.push_back(std::move(name));
    if (!row.value.empty()) cases += BashValueCase(row);
  }
  return fmt::format(
      R"(# bash completion of {0}; made by: {0} --completion bash
_nxdkit_paths() {{
  compopt -o filenames 2>/dev/null
  mapfile -t COMPREPLY < <(compgen "$1" -- "$word")
}}
{1}() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} previous=${{COMP_WORDS[COMP_CWORD - 1]}}
  if [[ $word == "=" ]]; then
    word=""
  elif [[ $previous == "=" ]]; then
    previous=${{COMP_WORDS[COMP_CWORD - 2]}}
  fi
  COMPREPLY=()
  case $previous in
{2}  esac
  if [[ $word == -* ]]; then
    mapfile -t COMPREPLY < <(compgen -W '{3}' -- "$word")
    return
  fi
  _nxdkit_paths -f
}}
complete -F {1} {0}
)",
      info.name, FunctionName(info), cases, fmt::join(names, " "));
}

// --- zsh

// For text inside single quotes; brackets and colons have a meaning in a spec.
std::string ZshText(std::string_view text) {
  std::string out;
  for (const char c : Escaped(text, "[]:\\", "\\")) out += c == '\'' ? "'\\''" : std::string(1, c);
  return out;
}

std::string ZshAction(const OptionFacts& row) {
  if (!row.choices.empty()) return fmt::format("({})", fmt::join(row.choices, " "));
  if (row.completes == Completes::kPath) return "_files";
  return row.completes == Completes::kNothing ? " " : "_files -/";
}

std::string ZshSpecs(const OptionFacts& row) {
  if (row.positional)
    return fmt::format("    '{}:{}:{}' \\\n", row.required ? "" : ":", ZshText(row.name),
                       ZshAction(row));
  std::string specs;
  for (const std::string& name : row.AllNames()) {
    const char* equals = !row.value.empty() ? (name.starts_with("--") ? "=" : "+") : "";
    specs +=
        fmt::format("    '{}{}{}[{}]", row.repeats ? "*" : "", name, equals, ZshText(row.help));
    if (!row.value.empty()) specs += fmt::format(":{}:{}", ZshText(row.value), ZshAction(row));
    specs += "' \\\n";
  }
  return specs;
}

std::string ZshScript(const ToolInfo& info, const std::vector<OptionFacts>& options) {
  std::string specs;
  for (const OptionFacts& row : options) specs += ZshSpecs(row);
  return fmt::format(
      R"(#compdef {0}
# zsh completion of {0}; made by: {0} --completion zsh
{1}() {{
  _arguments -s -S \
{2}    && return 0
}}
if [ "$funcstack[1]" = "{1}" ]; then
  {1} "$@"
else
  compdef {1} {0}
fi
)",
      info.name, FunctionName(info), specs);
}

// --- fish

std::string FishLine(const ToolInfo& info, const OptionFacts& row, const std::string& name) {
  std::string line = fmt::format("complete -c {}", info.name);
  line += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
  if (!row.choices.empty())
    line += fmt::format(" -x -a '{}'", fmt::join(row.choices, " "));
  else if (!row.value.empty())
    line += row.completes == Completes::kNothing ? " -x" : " -r -F";
  return line + fmt::format(" -d '{}'\n", Escaped(row.help, "'\\", "\\"));
}

std::string FishScript(const ToolInfo& info, const std::vector<OptionFacts>& options) {
  std::string script =
      fmt::format("# fish completion of {0}; made by: {0} --completion fish\n", info.name);
  for (const OptionFacts& row : options) {
    if (row.positional) continue;
    for (const std::string& name : row.AllNames()) script += FishLine(info, row, name);
  }
  return script;
}

}  // namespace

std::string CompletionScript(std::string_view shell, const ToolInfo& info,
                             const std::vector<OptionFacts>& options) {
  if (shell == "zsh") return ZshScript(info, options);
  if (shell == "fish") return FishScript(info, options);
  return BashScript(info, options);
}

}  // namespace nxdkit::tool
