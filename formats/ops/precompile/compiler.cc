#include "formats/ops/precompile/compiler.h"

#include <algorithm>
#include <array>

#include "formats/compile_cache/compiler_options.h"
#include "formats/ops/export/compile.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"
#include "lib/system/command_text.h"
#include "lib/system/file.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"

namespace nxdkit::ops {
namespace {

// "[NCC_EVRF059]", "[F137]": capitals, digits and underscores, with at least one digit.
bool HasCode(std::string_view line) {
  for (size_t open = line.find('['); open != std::string_view::npos;
       open = line.find('[', open + 1)) {
    const size_t close = line.find(']', open);
    if (close == std::string_view::npos) return false;
    const std::string_view code = line.substr(open + 1, close - open - 1);
    const bool capitals =
        !code.empty() && code[0] >= 'A' && code[0] <= 'Z' && std::ranges::all_of(code, [](char c) {
          return (c >= 'A' && c <= 'Z') || IsDigit(c) || c == '_';
        });
    if (capitals && std::ranges::any_of(code, IsDigit)) return true;
  }
  return false;
}

bool SaysError(std::string_view line) {
  constexpr auto kWords = std::to_array<std::string_view>({"ERROR", "Error", "error:"});
  return std::ranges::any_of(
      kWords, [&](std::string_view word) { return line.find(word) != std::string_view::npos; });
}

}  // namespace

Result<GraphCompiler> FindGraphCompiler(const std::optional<std::string>& said,
                                        const std::function<Status()>& poll) {
  GraphCompiler compiler;
  NXDKIT_TRY(SplitCommand(said.value_or(kGraphCompiler)).To(compiler.command));
  if (compiler.command.empty()) return BadUsage("--compiler is empty");
  const std::optional<std::string> program = FindProgram(compiler.command[0]);
  if (!program)
    return NotFound("no such program, or it may not be executed")
        .in(compiler.command[0])
        .hint(
            "it is in the vendor's environments: `source /opt/aws_neuron*/bin/activate`, or "
            "--compiler names it");
  // It is run in another folder than ours.
  compiler.command[0] = *program;
  for (std::string& word : compiler.command) {
    const bool relative = !word.starts_with('/') && word.find('/') != std::string::npos;
    if (!relative || KindForHint(word) != PathKind::kFile) continue;
    // The name stays: a link's name may tell a program what to do.
    NXDKIT_ASSIGN(const std::string folder, RealPath(ParentPath(word)));
    word = JoinPath(folder, BaseName(word));
  }
  NXDKIT_TRY(VersionOf(compiler.command, poll).To(compiler.version));
  return compiler;
}

std::vector<std::string> EnvironmentOfCompiler(std::vector<std::string> environment) {
  constexpr auto kLeftOut = std::to_array<std::string_view>(
      {"NEURON_EXTRACT_GRAPHS_ONLY", "NEURON_PARALLEL_COMPILE", "AWS_ACCESS_KEY_ID",
       "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  std::erase_if(environment, [&](const std::string& entry) {
    return std::ranges::find(kLeftOut, VariableName(entry)) != kLeftOut.end();
  });
  return WithoutRelativePlaces(std::move(environment));
}

bool NeedsTarget(const neff::Graph& graph) {
  return !neff::OptionValue(graph.options, {"--target"}).has_value();
}

std::vector<std::string> CompileWords(const GraphCompiler& compiler, const neff::Graph& graph,
                                      const std::string& target, const CompilePaths& paths) {
  std::vector<std::string> words = compiler.command;
  words.emplace_back("compile");
  if (NeedsTarget(graph)) words.push_back("--target=" + target);
  words.push_back(paths.graph);
  words.insert(words.end(), {"--output", paths.neff});
  words.insert(words.end(), graph.options.begin(), graph.options.end());
  words.insert(words.end(), {"--logfile", paths.log});
  return words;
}

std::string TellingLine(std::string_view log) {
  constexpr size_t kMostBytes = 500;
  std::string_view last, error, code;
  for (size_t at = 0; at < log.size();) {
    const size_t end = std::min(log.find_first_of("\r\n", at), log.size());
    const std::string_view line = log.substr(at, end - at);
    at = end + 1;
    if (line.find_first_not_of(" \t") == std::string_view::npos) continue;
    last = line;
    if (SaysError(line)) error = line;
    if (HasCode(line)) code = line;
  }
  const std::string_view told = !code.empty() ? code : !error.empty() ? error : last;
  return std::string(told.substr(0, std::min(told.find_last_not_of(" \t") + 1, kMostBytes)));
}

std::string TellingLineOf(const std::string& path) {
  constexpr size_t kMostBytes = 4 << 20;
  const Result<std::string> log = ReadEnd(path, kMostBytes);
  return log.ok() ? TellingLine(*log) : "";
}

}  // namespace nxdkit::ops
