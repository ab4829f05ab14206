#include "tools/env/software.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>

#include "formats/ops/export/compile.h"
#include "formats/rollout/installed.h"
#include "lib/base/text.h"
#include "lib/system/process.h"
#include "lib/system/run_program.h"

namespace nxdkit::tool {
namespace {

constexpr char kCompilerProgram[] = "neuronx-cc";
constexpr auto kMostCompiler = std::chrono::seconds(30);
constexpr size_t kMostCompilerBytes = 64 << 10;
constexpr char kHidden[] = "(hidden)";

// Names as the packages' folders spell them.
constexpr std::string_view kPackages[] = {"neuronx_cc",
                                          "torch_neuronx",
                                          "libneuronxla",
                                          "neuronx_distributed",
                                          "nki",
                                          "neuronx_distributed_training",
                                          "optimum_neuron",
                                          "neuronx_distributed_inference",
                                          "vllm",
                                          "vllm_neuron",
                                          "torch",
                                          "torch_xla",
                                          "transformers",
                                          "jax_neuronx"};

constexpr std::string_view kPrefixes[] = {"NEURON", "NXDKIT_", "XLA_", "TORCH_NEURONX_", "VLLM_"};
constexpr std::string_view kNames[] = {"VIRTUAL_ENV",     "CONDA_PREFIX", "TMPDIR",
                                       "LD_LIBRARY_PATH", "HF_HOME",      "HF_HUB_CACHE"};

std::string Upper(std::string text) {
  for (char& c : text)
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  return text;
}

bool HasAny(const std::string& text, std::initializer_list<std::string_view> words) {
  return std::ranges::any_of(words,
                             [&](std::string_view word) { return text.find(word) != text.npos; });
}

// "https://user:password@host"
bool HasUserInfo(const std::string& value) {
  const size_t scheme = value.find("://");
  if (scheme == value.npos) return false;
  const size_t end = value.find('/', scheme + 3);
  return value.substr(scheme + 3, end == value.npos ? end : end - scheme - 3).find('@') !=
         value.npos;
}

bool MaySaySecret(const std::string& name, const std::string& value) {
  return HasAny(Upper(name),
                {"KEY", "TOKEN", "SECRET", "PASSWORD", "PASSWD", "CREDENTIAL", "AUTH", "COOKIE"}) ||
         HasAny(Upper(value), {"AKIA", "ASIA", "X-AMZ-", "HF_", "SECRET", "PASSWORD", "TOKEN",
                               "APIKEY", "API-KEY", "API_KEY", "BEARER ", "PRIVATE KEY"}) ||
         HasUserInfo(value);
}

struct CompilerFacts {
  std::string version;  // "": `problem` says why
  std::string problem;
};

// Fails only with the error of `poll`.
Result<CompilerFacts> AskCompilerProgram(const std::function<Status()>& poll) {
  const auto program = FindProgram(kCompilerProgram);
  if (!program) return CompilerFacts{"", "not in PATH"};
  const Result<std::string> said = OutputOf({.program = *program,
                                             .words = {*program, "--version"},
                                             .environment = ops::CompilerEnvironment({}),
                                             .most = kMostCompiler,
                                             .max_bytes = kMostCompilerBytes,
                                             .poll = poll});
  if (!said.ok() && said.error().code() == Errc::kInterrupted) return said.error();
  if (!said.ok()) return CompilerFacts{"", *program + ": " + said.error().message()};
  std::vector<std::string> lines;
  for (const std::string_view line : Split(*said, '\n')) lines.emplace_back(line);
  std::string version = ops::VersionIn(lines);
  if (!version.empty()) return CompilerFacts{std::move(version), ""};
  return CompilerFacts{"", fmt::format("{}: it reports no version: '{}'", *program,
                                       ShortName(said->substr(0, said->find('\n'))))};
}

Section PackagesText(const std::vector<rollout::InstalledPackage>& found,
                     const CompilerFacts& compiler) {
  Section section;
  Json packages = Json::array();
  std::map<std::string, std::string> by_folder;
  for (const rollout::InstalledPackage& package : found) {
    std::string& line = by_folder[package.folder];
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", package.name, package.version);
    packages.push_back(
        {{"name", package.name}, {"version", package.version}, {"environment", package.folder}});
  }
  for (const auto& [folder, line] : by_folder)
    section.Add("packages", fmt::format("{}: {}", folder, line));
  if (found.empty()) section.Add("packages", "none of Neuron's");
  section.Add("neuronx-cc", compiler.version.empty() ? compiler.problem : compiler.version);
  section.json = {{"packages", std::move(packages)},
                  {"compiler", TextOrNull(compiler.version)},
                  {"compiler_problem", TextOrNull(compiler.problem)}};
  return section;
}

}  // namespace

std::string WithoutSecrets(const std::string& name, const std::string& value) {
  return MaySaySecret(name, value) ? kHidden : ShortName(value);
}

Result<Section> PackagesSection(const std::function<Status()>& poll) {
  NXDKIT_ASSIGN(const CompilerFacts compiler, AskCompilerProgram(poll));
  const std::string more[] = {"/usr/local", "/opt/conda", "/usr"};
  return PackagesText(rollout::FindPackages({.virtual_env = EnvironmentValue("VIRTUAL_ENV"),
                                             .conda_prefix = EnvironmentValue("CONDA_PREFIX"),
                                             .path = EnvironmentValue("PATH")},
                                            kPackages, more),
                      compiler);
}

Section VariablesSection() {
  Section section;
  section.json = Json::array();
  std::vector<std::string> entries = EnvironmentOf(kNames, kPrefixes);
  std::ranges::sort(entries);
  for (const std::string& entry : entries) {
    const std::string name(VariableName(entry));
    const std::string value = WithoutSecrets(name, entry.substr(name.size() + 1));
    section.Add("variable", fmt::format("{}={}", name, value));
    section.json.push_back({{"name", name}, {"value", value}, {"hidden", value == kHidden}});
  }
  return section;
}

}  // namespace nxdkit::tool
