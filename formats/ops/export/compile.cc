#include "formats/ops/export/compile.h"

#include <fmt/core.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>

#include "formats/artifact/open_file.h"
#include "formats/rollout/bundle.h"
#include "lib/system/folders.h"
#include "lib/system/process.h"

namespace nxdkit::ops {
namespace {

constexpr char kVendorCompiler[] = "neuronx-cc";

struct Placeholder {
  std::string_view name;
  std::string value;
};

std::array<Placeholder, 6> Placeholders(const CompileRequest& request) {
  const rollout::NeuronConfig& neuron = request.neuron;
  return {{{"{model}", request.model},
           {"{output}", request.output},
           {"{tp}", fmt::format("{}", neuron.tp)},
           {"{bs}", fmt::format("{}", neuron.batch_size)},
           {"{seq}", fmt::format("{}", neuron.sequence_length)},
           {"{dtype}", neuron.torch_dtype}}};
}

// In one pass: what was put in is not looked at again.
std::string Replaced(const std::string& word, std::span<const Placeholder> placeholders) {
  std::string out;
  for (size_t at = 0; at < word.size();) {
    const auto it = std::ranges::find_if(placeholders, [&](const Placeholder& p) {
      return std::string_view(word).substr(at).starts_with(p.name);
    });
    if (it == placeholders.end()) {
      out += word[at++];
      continue;
    }
    out += it->value;
    at += it->name.size();
  }
  return out;
}

}  // namespace

std::vector<std::string> CompilerWords(std::vector<std::string> command,
                                       const CompileRequest& request) {
  const auto placeholders = Placeholders(request);
  const bool is_template = std::ranges::any_of(
      command, [](const std::string& word) { return word.find("{output}") != std::string::npos; });
  if (!is_template)
    for (const char* word :
         {"export", "neuron", "--model", "{model}", "--batch_size", "{bs}", "--sequence_length",
          "{seq}", "--tensor_parallel_size", "{tp}", "--torch_dtype", "{dtype}", "{output}"})
      command.emplace_back(word);
  for (std::string& word : command) word = Replaced(word, placeholders);
  return command;
}

namespace {

// A file of its own name in the folder for temporary files; gone with the object.
class TemporaryFile {
 public:
  TemporaryFile() {
    std::error_code ignored;
    path_ = JoinPath(std::filesystem::temp_directory_path(ignored).string(), "nxdkit-XXXXXX");
    const int fd = ::mkstemp(path_.data());
    if (fd < 0) path_.clear();
    if (fd >= 0) ::close(fd);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The word after "version ", as far as it can be the name of a folder.
std::string VersionIn(const std::vector<std::string>& lines) {
  constexpr std::string_view kBefore = "version ";
  for (const std::string& line : lines) {
    const size_t at = line.find(kBefore);
    if (at == std::string::npos) continue;
    const std::string_view rest = std::string_view(line).substr(at + kBefore.size());
    const size_t end =
        std::min(rest.find_first_not_of("0123456789abcdefghijklmnopqrstuvwxyz.+"), rest.size());
    if (end > 0 && rest[0] >= '0' && rest[0] <= '9') return std::string(rest.substr(0, end));
  }
  return "";
}

}  // namespace

Result<std::string> CompilerVersion(const std::function<Status()>& poll) {
  if (!FindProgram(kVendorCompiler)) return std::string();
  const TemporaryFile log;
  if (log.path().empty()) return std::string();
  const Result<CommandResult> result =
      RunCommand({{kVendorCompiler, "--version"}, CompilerEnvironment({}), log.path(), poll});
  if (!result.ok() && result.error().code() == Errc::kInterrupted) return result.error();
  return result.ok() && result->exit_code == 0 ? VersionIn(result->last_lines) : std::string();
}

Result<std::vector<std::string>> CompiledFiles(const std::string& folder) {
  const Result<rollout::Bundle> bundle = rollout::OpenBundle(folder, OpenTensorFile);
  if (!bundle.ok() || !bundle->config || bundle->blobs.empty())
    return Error(Errc::kUnsupported,
                 bundle.ok()
                     ? fmt::format("the compiler ended well, but left no {}",
                                   bundle->config ? "model.pt" : "neuron_config.json")
                     : "the compiler ended well, but left no bundle: " + bundle.error().ToString());
  std::vector<std::string> names = bundle->blobs;
  names.push_back("neuron_config.json");
  if (KindOf(JoinPath(folder, "config.json")) == PathKind::kFile) names.push_back("config.json");
  return names;
}

Status MoveFiles(const std::vector<std::string>& names, const std::string& from,
                 const std::string& to) {
  for (const std::string& name : names)
    if (std::rename(JoinPath(from, name).c_str(), JoinPath(to, name).c_str()) != 0)
      return OutputError("move", errno).in(JoinPath(from, name));
  return OkStatus();
}

}  // namespace nxdkit::ops
