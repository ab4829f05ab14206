// The compiler of graphs, neuronx-cc, and its command line for one of them. Source: what users of
// neuron_parallel_compile saw in its logs, over several releases.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "formats/compile_cache/graph.h"
#include "lib/base/error.h"

namespace nxdkit::ops {

inline constexpr char kGraphCompiler[] = "neuronx-cc";

struct GraphCompiler {
  std::vector<std::string> command;  // command[0]: a path; then words before its own
  std::string version;               // "2.21.33363.0+82129205"; "" where it says none
};

// `said`: a command, as a shell would split it; without it neuronx-cc in PATH. kNotFound when there
// is none.
Result<GraphCompiler> FindGraphCompiler(const std::optional<std::string>& said,
                                        const std::function<Status()>& poll);

// All of ours but for what says that graphs are only to be written, and for credentials: unlike a
// bundle's, the result depends on the graph and its flags alone.
std::vector<std::string> EnvironmentOfCompiler(std::vector<std::string> environment);

// Whether the compiler has to be told the target: the entry does not say it.
bool NeedsTarget(const neff::Graph& graph);

struct CompilePaths {
  std::string graph;  // the input
  std::string neff;   // the output
  std::string log;    // of the compiler itself, beside its standard streams
};
// `target` is taken where NeedsTarget.
std::vector<std::string> CompileWords(const GraphCompiler& compiler, const neff::Graph& graph,
                                      const std::string& target, const CompilePaths& paths);

// The line of a log that names why it failed: the last with a code of the compiler
// ("[NCC_EVRF059]", "[F137]"), else the last that says error, else the last; its first 500 bytes.
std::string TellingLine(std::string_view log);
std::string TellingLineOf(const std::string& path);  // "" where there is no log

}  // namespace nxdkit::ops
