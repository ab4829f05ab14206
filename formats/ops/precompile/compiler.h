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
  std::string version;               // "2.21.33363.0+82129205"; "" if it prints none
};

// `said`: a command, in shell syntax; without it neuronx-cc in PATH. kNotFound if there is none.
Result<GraphCompiler> FindGraphCompiler(const std::optional<std::string>& said,
                                        const std::function<Status()>& poll);

// Our environment except credentials and the request to only write graphs: unlike a bundle's, the
// result depends only on the graph and its flags.
std::vector<std::string> EnvironmentOfCompiler(std::vector<std::string> environment);

// Whether the compiler has to be told the target, because the entry does not have it.
bool NeedsTarget(const neff::Graph& graph);

struct CompilePaths {
  std::string graph;  // the input
  std::string neff;   // the output
  std::string log;    // of the compiler itself, besides its standard streams
};
// `target` is used if NeedsTarget.
std::vector<std::string> CompileWords(const GraphCompiler& compiler, const neff::Graph& graph,
                                      const std::string& target, const CompilePaths& paths);

// The line of a log that gives the reason of a failure: the last with a code of the compiler
// ("[NCC_EVRF059]", "[F137]"), else the last that says error, else the last; its first 500 bytes.
std::string TellingLine(std::string_view log);
std::string TellingLineOf(const std::string& path);  // "" if there is no log

}  // namespace nxdkit::ops
